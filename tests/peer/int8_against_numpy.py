#!/usr/bin/env python3
"""`muster-trainer export --format int8`: NumPy reproduces the file's scales and weights, PyTorch its accuracy.

Trains an MLP and a ResNet on the handwritten digits (data/digits; scripts/setup brings it), exports them, and computes all of
it again: the weights' scales from the fp32 weights, the inputs' scales from what the layers see of the validation split, and
the accuracy with the file's own numbers, weights dequantised and inputs fake-quantised.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.environ.get("MUSTER_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ.get("MUSTER_BIN_DIR", os.path.join(ROOT, "build/release/bin"))
DIGITS = os.path.join(ROOT, "data/digits")
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))
sys.path.insert(0, os.path.join(ROOT, "scripts"))

import numpy as np  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

import score_digits  # noqa: E402
from muster_gang import Gang, resolved_spec  # noqa: E402

TRAINER = os.path.join(BIN, "muster-trainer")


def train(folder, model, epochs, image_size, lr):
    spec = resolved_spec({
        "model": model, "data": {"digits": {"path": DIGITS, "image_size": image_size}}, "batch_size": 64, "epochs": epochs,
        "seed": 3, "optimizer": {"name": "adamw", "lr": lr, "weight_decay": 0.01, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8},
        "schedule": {"name": "cosine", "warmup_steps": 10, "final_fraction": 0.0, "start_fraction": 0.0}}, ranks=1)
    gang = Gang(TRAINER, spec, folder, ranks=1).run(300)
    return gang.committed[-1]["path"]


class Int8AgainstNumPy(unittest.TestCase):
    def check(self, spec, build, epochs, image_size, lr):
        with tempfile.TemporaryDirectory(prefix="muster-int8-") as folder:
            place = train(os.path.join(folder, "run"), spec, epochs, image_size, lr)
            out = os.path.join(folder, "int8.safetensors")
            done = subprocess.run([TRAINER, "export", place, "--format", "int8", "--out", out, "-o", "json"],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            told = json.loads(done.stdout)
            rounded, plain = load_file(out), load_file(os.path.join(place, "model.safetensors"))
            size = os.path.getsize(out) / os.path.getsize(os.path.join(place, "model.safetensors"))
        report = told["simulated_int8"]
        quantized = sorted(name[:-len(".input_scale")] for name in rounded if name.endswith(".input_scale"))
        self.assertEqual(report["layers"], len(quantized))
        extra = {name + end for name in quantized for end in (".scale", ".input_scale", ".input_zero_point")}
        self.assertEqual(set(rounded), set(plain) | extra)
        self.assertEqual(quantized, sorted(n for n, t in plain.items() if t.dim() >= 2))

        for name, tensor in plain.items():
            if name not in quantized:
                self.assertTrue(torch.equal(rounded[name], tensor), name)
                continue
            weight, values, scale = (t.numpy() for t in (tensor, rounded[name], rounded[name + ".scale"]))
            self.assertEqual(values.dtype, np.int8)
            self.assertGreaterEqual(values.min(), -127)
            wanted = np.abs(weight).max(axis=tuple(range(1, weight.ndim)), keepdims=True) / np.float32(127)
            np.testing.assert_allclose(scale, wanted, rtol=1e-6)
            self.assertTrue(np.all(np.abs(values * scale - weight) <= scale * (0.5 + 1e-5)), name)

        model = build()
        model.load_state_dict(plain)
        model.eval()
        data = score_digits.read_digits(DIGITS, image_size)
        layers = {name + ".weight": layer for name, layer in model.named_modules()
                  if isinstance(layer, (torch.nn.Linear, torch.nn.Conv2d))}
        ranges = {}

        def measure(name):
            return lambda _, inputs: ranges.__setitem__(name, (inputs[0].min().item(), inputs[0].max().item()))

        hooks = [layer.register_forward_pre_hook(measure(name)) for name, layer in layers.items()]
        self.assertEqual(self.accuracy(model, data["test"]), report["accuracy_before"])
        with torch.no_grad():
            model(data["validation"][0])
        for hook in hooks:
            hook.remove()
        self.assertEqual(report["calibration_samples"], len(data["validation"][0]))
        for name, (low, high) in ranges.items():
            low, high = min(low, 0), max(high, 0)
            self.assertAlmostEqual(rounded[name + ".input_scale"].item() / ((high - low) / 255), 1, delta=1e-4, msg=name)
            self.assertAlmostEqual(rounded[name + ".input_zero_point"].item(), -low / ((high - low) / 255), delta=0.51)

        def round_input(name):
            scale, zero = rounded[name + ".input_scale"].item(), rounded[name + ".input_zero_point"].item()
            return lambda _, inputs: torch.fake_quantize_per_tensor_affine(inputs[0], scale, zero, 0, 255)

        model.load_state_dict({name: tensor.float() * rounded[name + ".scale"] if name in quantized else tensor
                               for name, tensor in rounded.items() if name not in extra})
        for name, layer in layers.items():
            layer.register_forward_pre_hook(round_input(name))
        accuracy = self.accuracy(model, data["test"])
        print(f"{self.id()}: {len(quantized)} layers, file {size:.0%} of fp32's; test accuracy {report['accuracy_before']:.4f}"
              f" in fp32, {report['accuracy_after']:.4f} in simulated int8, {accuracy:.4f} in PyTorch's", file=sys.stderr)
        # Sums in another order may tip a rounding, and so a sample.
        self.assertAlmostEqual(accuracy, report["accuracy_after"], delta=1.5 / len(data["test"][0]))
        self.assertGreater(report["accuracy_after"], report["accuracy_before"] - 0.02)

    def accuracy(self, model, samples):
        with torch.no_grad():
            return (model(samples[0]).argmax(1) == samples[1]).sum().item() / len(samples[1])

    def test_an_mlp(self):
        class Flat(torch.nn.Sequential):
            def forward(self, inputs):
                return super().forward(inputs.flatten(1))

        self.check({"mlp": {"hidden": [64, 32]}},
                   lambda: Flat(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32), torch.nn.ReLU(),
                                torch.nn.Linear(32, 10)), 20, 8, 0.01)

    def test_a_resnet(self):
        self.check({"resnet18": {"width": 8, "stem": "small"}}, lambda: score_digits.ResNet18(8, False, 1, 10), 3, 16, 0.004)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main(warnings="ignore")  # of sockets that the process's end closes
