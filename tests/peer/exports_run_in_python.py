#!/usr/bin/env python3
"""What `muster-trainer export` writes of a checkpoint runs in Python without Muster, with the same outputs.

Trains each network for some steps, exports the checkpoint as safetensors and as TorchScript, loads the one into torchvision's
or Hugging Face's module (every name must have its place) and the other with torch.jit.load, and compares their outputs with
those of `muster-trainer forward`, for batches of several sizes. Needs scripts/requirements-peer.txt; a missing package fails.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.environ.get("MUSTER_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ.get("MUSTER_BIN_DIR", os.path.join(ROOT, "build/release/bin"))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

import reference_models  # noqa: E402, F401: before torchvision and transformers

import torch  # noqa: E402
import torchvision  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file, load_model, save_file  # noqa: E402

from muster_gang import Gang, resolved_spec  # noqa: E402
from vision_against_reference import MAE, MAE_CONFIG, SHAPE, VIT_TINY, published, vit, vit_spec  # noqa: E402

TRAINER = os.path.join(BIN, "muster-trainer")
STEPS, CLASSES, TOLERANCE = 4, 10, 1e-4
CONTEXT, VOCABULARY = 32, 256


def vision_data():
    return {"synthetic": {"samples": 40, "shape": SHAPE, "classes": CLASSES}}


def checkpoint(folder, model, data, **settings):
    """The folder of a trained network's checkpoint."""
    spec = resolved_spec({"model": model, "data": data, "batch_size": 8, "steps": STEPS, "seed": 3,
                          "optimizer": {"name": "adamw", "lr": 1e-3, "weight_decay": 0.0, "beta1": 0.9, "beta2": 0.999,
                                        "eps": 1e-8}, **settings}, ranks=1)
    gang = Gang(TRAINER, spec, folder, ranks=1).run(300)
    return spec, gang.committed[-1]["path"]


def export(*arguments):
    return subprocess.run([TRAINER, "export", *arguments], capture_output=True, text=True)


class ExportsRunInPython(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="muster-export-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        torch.manual_seed(1)

    def path(self, name):
        return os.path.join(self.folder, name)

    def export(self, place, name, *flags):
        """Exports to the file `name`; returns its path and the JSON that was printed."""
        done = export(place, "--out", self.path(name), "-o", "json", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([n for n in os.listdir(self.folder) if n.endswith(".tmp")], [])
        return self.path(name), json.loads(done.stdout)

    def forward(self, spec, weights, inputs):
        with open(self.path("spec.json"), "w") as file:
            json.dump(spec, file)
        save_file({"inputs": inputs}, self.path("inputs"))
        subprocess.run([TRAINER, "forward", "--spec", self.path("spec.json"), "--weights", weights, "--inputs",
                        self.path("inputs"), "--classes", str(VOCABULARY if inputs.dtype == torch.int64 else CLASSES),
                        "--out", self.path("out")], check=True)
        return load_file(self.path("out"))["values"]

    def check(self, spec, place, batches, reference, load):
        """Both formats; `load(reference, file)` is strict. Returns the safetensors file."""
        weights, told = self.export(place, "weights.safetensors")
        self.assertEqual((told["format"], told["step"]), ("safetensors", STEPS))
        script, told = self.export(place, "network.pt", "--format", "torchscript")
        self.assertEqual(told["sample_shape"], list(batches[0].shape[1:]))
        load(reference, weights)
        reference.eval()
        traced = torch.jit.load(script)
        self.assertFalse(traced.training)
        state = load_file(weights)
        self.assertEqual(set(traced.state_dict()), set(state))
        self.assertEqual({name for name, _ in traced.named_buffers()},
                         {n for n in state if n.split(".")[-1] in ("running_mean", "running_var", "num_batches_tracked")})
        largest = {"torchscript": 0.0, "safetensors": 0.0}
        for inputs in batches:
            ours = self.forward(spec, weights, inputs)
            with torch.no_grad():
                theirs = reference(inputs)
                found = {"torchscript": [traced(inputs) for _ in range(3)][-1],  # the executor optimises after some calls
                         "safetensors": getattr(theirs, "logits", theirs)}
            for name, values in found.items():
                largest[name] = max(largest[name], (values - ours).abs().max().item())
        print(f"{self.id()}: largest difference {largest} of values up to {ours.abs().max().item():.3g}", file=sys.stderr)
        for name, difference in largest.items():
            self.assertLessEqual(difference, TOLERANCE, name)
        return weights

    def check_vision(self, model, reference, **settings):
        spec, place = checkpoint(self.path("run"), model, vision_data(), **settings)
        batches = [torch.randn(count, *SHAPE) for count in (1, 4, 7)]
        weights = self.check(spec, place, batches, reference, lambda module, file: module.load_state_dict(load_file(file)))
        return place, weights

    def test_mlp(self):
        # Muster's flattens the pictures, and its names start at 0.
        size = SHAPE[0] * SHAPE[1] * SHAPE[2]
        layers = [torch.nn.Linear(size, 24), torch.nn.ReLU(), torch.nn.Linear(24, 16), torch.nn.ReLU(), torch.nn.Linear(16, 10)]

        class Flat(torch.nn.Sequential):
            def forward(self, inputs):
                return super().forward(inputs.flatten(1))

        self.check_vision({"mlp": {"hidden": [24, 16]}}, Flat(*layers))

    def test_resnet18(self):
        self.check_vision({"resnet18": {"width": 64, "stem": "imagenet"}}, torchvision.models.resnet18(num_classes=CLASSES))

    def test_vit_tiny(self):
        self.check_vision(vit_spec(VIT_TINY), vit(VIT_TINY))

    def test_gpt2(self):
        data = {"text": {"path": os.path.join(ROOT, "docs"), "context": CONTEXT}}
        spec, place = checkpoint(self.path("run"), {"gpt2": {
            "layers": 2, "heads": 4, "width": 64, "context": CONTEXT, "vocabulary": VOCABULARY, "dropout": 0.0}}, data)
        reference = transformers.GPT2LMHeadModel(transformers.GPT2Config(
            n_layer=2, n_head=4, n_embd=64, n_positions=CONTEXT, vocab_size=VOCABULARY, bos_token_id=0, eos_token_id=0))
        batches = [torch.randint(VOCABULARY, (count, CONTEXT)) for count in (1, 3, 6)]
        # Strict, too; it knows which tensors are tied.
        self.check(spec, place, batches, reference, load_model)

    def test_averages_are_exported_unless_told_otherwise(self):
        spec, place = checkpoint(self.path("run"), {"mlp": {"hidden": [8]}}, vision_data(),
                                 ema={"decay": 0.9, "every_steps": 1, "warmup": False})
        saved = load_file(os.path.join(place, "model.safetensors"))
        averaged, told = self.export(place, "averaged")
        self.assertTrue(told["averaged"])
        plain, told = self.export(place, "plain", "--no-ema")
        self.assertFalse(told["averaged"])
        for file, prefix in ((averaged, "ema."), (plain, "")):
            tensors = load_file(file)
            self.assertEqual(set(tensors), {name for name in saved if not name.startswith("ema.")})
            for name, tensor in tensors.items():
                self.assertTrue(torch.equal(tensor, saved[prefix + name]), name)
        script, _ = self.export(place, "averaged.pt", "--format", "torchscript")
        self.assertTrue(torch.equal(torch.jit.load(script).state_dict()["0.weight"], saved["ema.0.weight"]))

    def test_mae_as_hugging_face_names_it_and_its_encoder_as_torchvision_does(self):
        _, place = checkpoint(self.path("run"), {"mae": MAE}, vision_data())
        weights, _ = self.export(place, "mae")
        names = transformers.ViTMAEForPreTraining(transformers.ViTMAEConfig(**MAE_CONFIG)).state_dict()
        self.assertEqual(set(load_file(weights)), {published(name) for name in names})
        encoder, _ = self.export(place, "encoder", "--encoder")
        reference = vit(dict(VIT_TINY, **{key: MAE[key] for key in ("patch_size", "layers", "heads", "width", "mlp_width")}))
        missing, unexpected = reference.load_state_dict(load_file(encoder), strict=False)
        self.assertEqual((missing, unexpected), (["heads.head.weight", "heads.head.bias"], []))
        done = export(place, "--out", self.path("mae.pt"), "--format", "torchscript")
        self.assertEqual(done.returncode, 2)
        self.assertIn("hides patches at random, which no trace can hold", done.stderr)
        self.assertFalse(os.path.exists(self.path("mae.pt")))

    def test_errors_name_the_thing_and_the_way_out(self):
        spec, place = checkpoint(self.path("run"), {"mlp": {"hidden": [8]}}, vision_data())
        out, _ = self.export(place, "once")
        for arguments, text in (
                ((place, "--out", out), "once is there already: choose another --out, or say --force"),
                ((place, "--out", self.path("x"), "--format", "onnx"), "--format"),
                ((self.path("nothing"), "--out", self.path("x")), "nothing: there is no checkpoint on this machine"),
                ((place, "--out", self.path("x"), "--encoder"), "is not of a masked autoencoder"),
                ((place, "--out", self.path("x"), "--sha256", "00" * 32), "MANIFEST.json"),
                ((place, "--out", self.path("no/folder/x")), "no/folder/x"),
                ((place, "--out", self.path("x"), "--format", "torchscript", "--shape", "5"), "does not fit")):
            done = export(*arguments)
            with self.subTest(text):
                self.assertEqual(done.returncode, 2)
                self.assertIn(text, done.stderr)
                self.assertFalse(os.path.exists(self.path("x")))
        self.export(place, "once", "--force")
        with open(os.path.join(place, "model.safetensors"), "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\x55")
        done = export(place, "--out", self.path("x"))
        self.assertIn("is corrupt", done.stderr)
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main(warnings="ignore")  # of sockets that the process's end closes
