#!/usr/bin/env python3
"""Muster's optimizers and schedules against torch.optim, step by step, and against float64 NumPy of the papers' formulas.

The program optimizer_steps builds the optimizer and the schedule from a resolved spec as the trainer does, applies it to the
gradients written here and returns the weights after each step. Distances are relative to the largest weight of a tensor.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.environ.get("MUSTER_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ.get("MUSTER_BIN_DIR", os.path.join(ROOT, "build/release/bin"))
PROGRAM = os.environ.get("MUSTER_OPTIMIZER_STEPS", os.path.join(os.path.dirname(BIN), "tests/optimizer_steps"))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

import numpy as np  # noqa: E402
import torch  # noqa: E402
from safetensors.numpy import load_file, save_file  # noqa: E402
from torch.optim import lr_scheduler  # noqa: E402

from muster_gang import resolved_spec  # noqa: E402

STEPS = 20
SHAPES = {
    "conv1.weight": (4, 3, 3, 3), "bn1.weight": (4,), "bn1.bias": (4,), "layer1.0.conv1.weight": (8, 4, 3, 3),
    "layer2.0.conv1.weight": (8, 8, 3, 3), "fc.weight": (5, 8), "fc.bias": (5,),
}
TORCH_BOUND = 1e-6   # fp32 on both sides
NUMPY_BOUND = 1e-5   # fp32 against float64 after 20 steps


def tensors():
    random = np.random.default_rng(7)
    start = {name: random.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    start["fc.bias"][:] = 0  # as fresh biases are: trust ratios must not divide by their norm
    gradients = [{name: random.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
                 for _ in range(STEPS)]
    return start, gradients


def run_muster(optimizer, schedule, start, gradients, steps=STEPS):
    train = {"optimizer": optimizer, "schedule": schedule, "batch_size": 1024, "steps": steps}
    inputs = {f"parameter.{name}": values for name, values in start.items()}
    for step in range(steps):
        for name in start:
            inputs[f"gradient.{step}.{name}"] = gradients[step % len(gradients)][name]
    with tempfile.TemporaryDirectory(prefix="muster-peer-") as folder:
        case, given, out = (os.path.join(folder, name) for name in ("case.json", "in.safetensors", "out.safetensors"))
        with open(case, "w") as file:
            json.dump({"spec": resolved_spec(train), "names": list(start), "steps": steps}, file)
        save_file(inputs, given)
        subprocess.run([PROGRAM, case, given, out], check=True, timeout=120)
        return load_file(out)


def constant(lr):
    return {"lr": lr}, {"name": "constant", "warmup_steps": 0, "final_fraction": 0.0, "start_fraction": 0.0}


class AgainstPyTorch(unittest.TestCase):
    def compare(self, settings, make, groups_of=None):
        start, gradients = tensors()
        lr, schedule = constant(0.02)
        ours = run_muster({**lr, **settings}, schedule, start, gradients)
        parameters = {name: torch.nn.Parameter(torch.from_numpy(values.copy())) for name, values in start.items()}
        optimizer = make(groups_of(parameters) if groups_of else list(parameters.values()))
        for step in range(STEPS):
            for name, parameter in parameters.items():
                parameter.grad = torch.from_numpy(gradients[step][name]) if parameter.requires_grad else None
            optimizer.step()
            for name, parameter in parameters.items():
                expected = parameter.detach().numpy()
                distance = np.abs(ours[f"after.{step}.{name}"] - expected).max() / np.abs(expected).max()
                self.assertLessEqual(distance, TORCH_BOUND, f"{name} after step {step}")
        self.assertFalse(np.array_equal(start["fc.weight"], ours[f"after.{STEPS - 1}.fc.weight"]))

    def test_sgd(self):
        self.compare({"name": "sgd", "momentum": 0.0, "nesterov": False, "weight_decay": 0.0},
                     lambda p: torch.optim.SGD(p, lr=0.02))

    def test_sgd_with_momentum_and_weight_decay(self):
        self.compare({"name": "sgd", "momentum": 0.9, "nesterov": False, "weight_decay": 0.05},
                     lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, weight_decay=0.05))

    def test_sgd_with_nesterov(self):
        self.compare({"name": "sgd", "momentum": 0.9, "nesterov": True, "weight_decay": 0.05},
                     lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, nesterov=True, weight_decay=0.05))

    def test_adam(self):
        self.compare({"name": "adam", "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.05},
                     lambda p: torch.optim.Adam(p, lr=0.02, betas=(0.9, 0.99), weight_decay=0.05))

    def test_adamw(self):
        self.compare({"name": "adamw", "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.05},
                     lambda p: torch.optim.AdamW(p, lr=0.02, betas=(0.9, 0.99), weight_decay=0.05))

    def test_groups_layer_decay_and_no_decay_of_norms_and_biases(self):
        settings = {
            "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.05, "layer_decay": 0.75,
            "decay_norms_and_biases": False,
            "groups": [{"pattern": "conv1.*", "frozen": True},
                       {"pattern": "fc.*", "lr_scale": 3.0, "weight_decay": 0.2, "frozen": False}],
        }
        expected = {  # name: (multiple of the rate, weight decay); three layers stand above the stem
            "bn1.weight": (0.75 ** 3, 0), "bn1.bias": (0.75 ** 3, 0), "layer1.0.conv1.weight": (0.75 ** 2, 0.05),
            "layer2.0.conv1.weight": (0.75, 0.05), "fc.weight": (3, 0.2), "fc.bias": (3, 0),
        }

        def groups_of(parameters):
            parameters["conv1.weight"].requires_grad_(False)
            return [{"params": [parameters[name]], "lr": 0.02 * scale, "weight_decay": decay}
                    for name, (scale, decay) in expected.items()]

        for name, make in (("adamw", torch.optim.AdamW), ("adam", torch.optim.Adam)):
            with self.subTest(name):
                self.compare({"name": name, **settings}, make, groups_of)


def lars_step(w, g, state, lr, adapt, decay=0.01, momentum=0.9, trust=0.001):
    weights, slope = np.linalg.norm(w), np.linalg.norm(g)
    rate = trust * weights / (slope + decay * weights) if adapt and weights > 0 and slope > 0 else 1
    state["m"] = momentum * state.get("m", 0) + lr * rate * (g + decay * w)
    return w - state["m"]


def lamb_step(w, g, state, lr, adapt, decay=0.01, beta1=0.9, beta2=0.999, eps=1e-6):
    t = state["t"] = state.get("t", 0) + 1
    m = state["m"] = beta1 * state.get("m", 0) + (1 - beta1) * g
    v = state["v"] = beta2 * state.get("v", 0) + (1 - beta2) * g * g
    update = (m / (1 - beta1 ** t)) / (np.sqrt(v / (1 - beta2 ** t)) + eps) + decay * w
    weights, length = np.linalg.norm(w), np.linalg.norm(update)
    return w - lr * (weights / length if adapt and weights > 0 and length > 0 else 1) * update


def lion_step(w, g, state, lr, adapt, decay=0.01, beta1=0.9, beta2=0.99):
    m = state.get("m", 0)
    state["m"] = beta2 * m + (1 - beta2) * g
    return w - lr * (np.sign(beta1 * m + (1 - beta1) * g) + decay * w)


class AgainstThePapers(unittest.TestCase):
    def compare(self, settings, step_of, lr):
        start, gradients = tensors()
        for decayed in (True, False):
            rate, schedule = constant(lr)
            ours = run_muster({**rate, **settings, "weight_decay": 0.01, "decay_norms_and_biases": decayed}, schedule,
                              start, gradients)
            weights = {name: values.astype(np.float64) for name, values in start.items()}
            states = {name: {} for name in start}
            for step in range(STEPS):
                for name in start:
                    full = decayed or start[name].ndim > 1
                    weights[name] = step_of(weights[name], gradients[step][name].astype(np.float64), states[name], lr,
                                            adapt=full, decay=0.01 if full else 0)
                    expected = weights[name]
                    distance = np.abs(ours[f"after.{step}.{name}"] - expected).max() / np.abs(expected).max()
                    self.assertLessEqual(distance, NUMPY_BOUND, f"{name} after step {step}")

    def test_lars(self):
        self.compare({"name": "lars", "momentum": 0.9, "trust_coefficient": 0.001}, lars_step, lr=0.5)

    def test_lamb(self):
        self.compare({"name": "lamb", "beta1": 0.9, "beta2": 0.999, "eps": 1e-6}, lamb_step, lr=0.01)

    def test_lion(self):
        self.compare({"name": "lion", "beta1": 0.9, "beta2": 0.99}, lion_step, lr=0.003)


class Schedules(unittest.TestCase):
    LENGTH, PEAK = 100, 0.4

    def compare(self, settings, make, optimizer=None):
        start = {"w": np.ones(1, np.float32)}
        full = {"name": "constant", "warmup_steps": 0, "final_fraction": 0.0, "start_fraction": 0.0, **settings}
        ours = run_muster({"name": "sgd", "momentum": 0.0, **(optimizer or {"lr": self.PEAK})}, full, start, [start],
                          self.LENGTH)["lr"]
        torch_optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=self.PEAK)
        scheduler = make(torch_optimizer)
        for step in range(self.LENGTH):
            self.assertAlmostEqual(ours[step] / torch_optimizer.param_groups[0]["lr"], 1, delta=1e-9, msg=f"step {step}")
            torch_optimizer.step()
            if step + 1 < self.LENGTH:
                scheduler.step()

    def warmed_up(self, optimizer, later, steps, start):
        """Reaches the peak at the last warm-up step; the other schedule begins at the next one."""
        rise = lr_scheduler.LinearLR(optimizer, start + (1 - start) / steps, 1.0, steps - 1)
        return lr_scheduler.SequentialLR(optimizer, [rise, later], [steps])

    def test_constant_with_warm_up(self):
        for start in (0.0, 0.1):
            self.compare({"warmup_steps": 10, "start_fraction": start},
                         lambda o: self.warmed_up(o, lr_scheduler.ConstantLR(o, 1.0), 10, start))

    def test_cosine(self):
        self.compare({"name": "cosine", "final_fraction": 0.1},
                     lambda o: lr_scheduler.CosineAnnealingLR(o, self.LENGTH, 0.1 * self.PEAK))

    def test_cosine_after_warm_up(self):
        self.compare({"name": "cosine", "final_fraction": 0.1, "warmup_steps": 20, "start_fraction": 0.25},
                     lambda o: self.warmed_up(o, lr_scheduler.CosineAnnealingLR(o, 80, 0.1 * self.PEAK), 20, 0.25))

    def test_step(self):
        self.compare({"name": "step", "milestones": [30, 60, 90], "gamma": 0.2},
                     lambda o: lr_scheduler.MultiStepLR(o, [30, 60, 90], 0.2))

    def test_polynomial(self):
        for power in (1.0, 2.5):
            self.compare({"name": "polynomial", "power": power},
                         lambda o: lr_scheduler.PolynomialLR(o, self.LENGTH, power))

    def test_one_cycle(self):
        for rise in (0.3, 0.05):
            self.compare({"name": "one_cycle", "rise_fraction": rise, "start_fraction": 1 / 25,
                          "final_fraction": 1 / 25 / 1e4},
                         lambda o: lr_scheduler.OneCycleLR(o, self.PEAK, self.LENGTH, pct_start=rise, cycle_momentum=False))

    def test_linear_scaling_rule(self):
        self.compare({}, lambda o: lr_scheduler.ConstantLR(o, 1.0), {"base_lr": 0.1, "base_batch": 256})


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
