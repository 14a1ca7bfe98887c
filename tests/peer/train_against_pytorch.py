#!/usr/bin/env python3
"""Muster against PyTorch: from one of Muster's checkpoints, plain PyTorch must see the same losses on the same batches.

Runs the real muster-trainer on one rank, reads the weights, buffers and moments that it saved after ten steps into torch.nn
and torch.optim, trains ten more steps on each side and compares each loss (to 1e-3 relative) and the final weights.
"""
import os
import sys
import tempfile
import unittest

ROOT = os.environ.get("MUSTER_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ.get("MUSTER_BIN_DIR", os.path.join(ROOT, "build/release/bin"))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

import ddp_rival  # noqa: E402
import muster_data  # noqa: E402
from muster_gang import Gang, resolved_spec  # noqa: E402

STEPS = 10
# A seed where no rectifier's input comes so close to zero that rounding decides: with 11, PyTorch's fp32 weights are 1e-3
# away from its own float64 ones after ten steps; with 13 they are 1e-6 away.
SAMPLES, BATCH, CLASSES, SEED = 96, 16, 5, 13
SMOOTHING, CLIP, LR = 0.1, 0.7, 2e-3
MODELS = {
    "mlp": ({"mlp": {"hidden": [24, 16]}}, {"model": "mlp", "hidden": [24, 16], "shape": [20]}),
    "resnet18": ({"resnet18": {"width": 8, "stem": "small"}}, {"model": "resnet18", "width": 8, "shape": [3, 16, 16]}),
}
OPTIMIZERS = {
    "adamw": (lambda p: torch.optim.AdamW(p, lr=LR, weight_decay=0.1), {"exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq"}),
    "sgd": (lambda p: torch.optim.SGD(p, lr=LR, weight_decay=0.1, momentum=0.9, nesterov=True),
            {"momentum_buffer": "momentum"}),
}


def train_muster(model, shape, optimizer, folder):
    """Returns the loss of each step and the folders of the checkpoints by step."""
    spec = resolved_spec({
        "model": model, "data": {"synthetic": {"samples": SAMPLES, "shape": shape, "classes": CLASSES}},
        "batch_size": BATCH, "steps": 2 * STEPS, "seed": SEED, "report_every_steps": 1, "label_smoothing": SMOOTHING,
        "clip_norm": CLIP,
        "optimizer": {"name": optimizer, "lr": LR, "weight_decay": 0.1, "momentum": 0.9, "nesterov": True,
                      "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}}, ranks=1)
    spec["checkpoint"]["every_steps"] = STEPS
    gang = Gang(os.path.join(BIN, "muster-trainer"), spec, folder, ranks=1).run(120)
    losses = {step: values["loss"] for _, step, values in gang.metrics[0] if "loss" in values}
    return losses, {line["step"]: line["path"] for line in gang.committed}


def load(folder, model, optimizer, names):
    model.load_state_dict(load_file(os.path.join(folder, "model.safetensors")))
    saved = load_file(os.path.join(folder, "optimizer.safetensors"))
    for name, parameter in model.named_parameters():
        state = {theirs: saved[f"{ours}.{name}"].clone() for theirs, ours in names.items()}
        if "step" in saved:
            state["step"] = saved["step"].clone()
        optimizer.state[parameter] = state


class TrainAgainstPyTorch(unittest.TestCase):
    def compare(self, model_name, optimizer_name):
        spec, task = MODELS[model_name]
        with tempfile.TemporaryDirectory(prefix="muster-peer-") as folder:
            losses, checkpoints = train_muster(spec, task["shape"], optimizer_name, folder)
            model = ddp_rival.build(dict(task, classes=CLASSES))
            make, names = OPTIMIZERS[optimizer_name]
            optimizer = make(model.parameters())
            load(checkpoints[STEPS], model, optimizer, names)
            final = load_file(os.path.join(checkpoints[2 * STEPS], "model.safetensors"))
        inputs, targets = muster_data.synthetic_train(SAMPLES, task["shape"], CLASSES, SEED)
        for step in range(STEPS, 2 * STEPS):
            ids = muster_data.sample_ids(SAMPLES, BATCH, SEED, step, 0, 1)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(torch.from_numpy(inputs[ids])), torch.from_numpy(targets[ids]),
                                   label_smoothing=SMOOTHING)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            self.assertAlmostEqual(losses[step + 1] / loss.item(), 1, delta=1e-3, msg=f"step {step + 1}")
        state = model.state_dict()
        self.assertEqual(set(final), set(state))
        for name, tensor in final.items():
            torch.testing.assert_close(tensor, state[name], rtol=1e-3, atol=1e-5, msg=lambda text: f"{name}: {text}")

    def test_mlp_with_adamw(self):
        self.compare("mlp", "adamw")

    def test_mlp_with_sgd(self):
        self.compare("mlp", "sgd")

    def test_resnet18_with_adamw(self):
        self.compare("resnet18", "adamw")

    def test_resnet18_with_sgd(self):
        self.compare("resnet18", "sgd")


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
