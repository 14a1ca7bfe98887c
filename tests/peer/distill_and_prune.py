#!/usr/bin/env python3
"""Distillation and pruning against PyTorch, and what they are good for on the handwritten digits.

The distilled run's losses must be those of plain PyTorch with torch.nn.functional.kl_div on the same batches, for ten steps
(1e-3 relative). Pruned weights must be those that torch.nn.utils.prune prunes. Needs data/digits (scripts/setup).
"""
import json
import os
import sys
import tempfile
import unittest

ROOT = os.environ.get("MUSTER_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ.get("MUSTER_BIN_DIR", os.path.join(ROOT, "build/release/bin"))
DIGITS = os.path.join(ROOT, "data/digits")
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from torch.nn.utils import prune  # noqa: E402

import ddp_rival  # noqa: E402
import muster_data  # noqa: E402
from muster_gang import Gang, resolved_spec  # noqa: E402

ADAMW = {"name": "adamw", "lr": 3e-3, "weight_decay": 0.01, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
SAMPLES, BATCH, CLASSES, SHAPE, SEED, STEPS = 96, 16, 5, [20], 11, 10
PRUNE = {"begin_step": 0, "every_steps": 10, "pattern": "*.weight", "scope": "tensor"}


def run(folder, timeout=300, fails=False, **settings):
    """Returns (losses by step, result line, the checkpoints' folders by step)."""
    recipe = {"batch_size": BATCH, "seed": SEED, "report_every_steps": 1, "optimizer": ADAMW}
    recipe.update(settings)
    spec = resolved_spec(recipe, ranks=1)
    spec["checkpoint"]["every_steps"] = STEPS if "steps" in settings else 0
    gang = Gang(os.path.join(BIN, "muster-trainer"), spec, folder, ranks=1)
    gang.start()
    codes = gang.wait(timeout)
    if codes != [0] and not fails:
        raise RuntimeError(f"muster-trainer failed: {gang.results}")
    losses = {step: values["loss"] for _, step, values in gang.metrics[0] if "loss" in values}
    return losses, gang.results[0], {line["step"]: line["path"] for line in gang.committed}


def mlp(hidden):
    return {"mlp": {"hidden": hidden}}


def synthetic(steps, **settings):
    return {"data": {"synthetic": {"samples": SAMPLES, "shape": SHAPE, "classes": CLASSES}}, "steps": steps, **settings}


def on_digits(epochs, **settings):
    return {"data": {"digits": {"path": DIGITS, "image_size": 8}}, "batch_size": 64, "epochs": epochs, "seed": 3,
            "validate_every_epochs": 2, "optimizer": {**ADAMW, "lr": 1e-2},
            "schedule": {"name": "cosine", "warmup_steps": 10, "final_fraction": 0.0, "start_fraction": 0.0}, **settings}


class Test(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="muster-recipes-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)


class Distillation(Test):
    def test_ten_losses_are_pytorchs(self):
        temperature, alpha = 3.0, 0.6
        _, _, taught = run(self.path("teacher"), **synthetic(STEPS, model=mlp([32])))
        distill = {"teacher": taught[STEPS], "model": mlp([32]), "temperature": temperature, "alpha": alpha}
        losses, _, places = run(self.path("student"), **synthetic(2 * STEPS, model=mlp([12]), distill=distill))
        plain, _, _ = run(self.path("alone"), **synthetic(STEPS, model=mlp([12])))
        self.assertGreater(abs(losses[1] / plain[1] - 1), 0.01)

        def build(hidden, folder):
            model = ddp_rival.build({"model": "mlp", "hidden": hidden, "shape": SHAPE, "classes": CLASSES})
            model.load_state_dict(load_file(os.path.join(folder, "model.safetensors")))
            return model

        teacher, student = build([32], taught[STEPS]).eval(), build([12], places[STEPS])
        optimizer = torch.optim.AdamW(student.parameters(), lr=ADAMW["lr"], weight_decay=ADAMW["weight_decay"])
        saved = load_file(os.path.join(places[STEPS], "optimizer.safetensors"))
        for name, parameter in student.named_parameters():
            optimizer.state[parameter] = {"step": saved["step"].clone(), "exp_avg": saved[f"exp_avg.{name}"].clone(),
                                          "exp_avg_sq": saved[f"exp_avg_sq.{name}"].clone()}
        inputs, targets = muster_data.synthetic_train(SAMPLES, SHAPE, CLASSES, SEED)
        largest = 0
        for step in range(STEPS, 2 * STEPS):
            ids = muster_data.sample_ids(SAMPLES, BATCH, SEED, step, 0, 1)
            x, y = torch.from_numpy(inputs[ids]), torch.from_numpy(targets[ids])
            with torch.no_grad():
                wanted = F.softmax(teacher(x) / temperature, dim=1)
            logits = student(x)
            taught_loss = F.kl_div(F.log_softmax(logits / temperature, dim=1), wanted, reduction="batchmean")
            loss = (1 - alpha) * F.cross_entropy(logits, y) + alpha * temperature ** 2 * taught_loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            largest = max(largest, abs(losses[step + 1] / loss.item() - 1))
        print(f"distillation: ten losses within {largest:.2g} relative, the last {loss.item():.6g}", file=sys.stderr)
        self.assertLessEqual(largest, 1e-3)

    def test_a_teacher_that_does_not_fit_ends_the_run_at_its_start(self):
        _, _, taught = run(self.path("teacher"), **synthetic(STEPS, model=mlp([32])))
        for distill, text in (
                ({"teacher": taught[STEPS], "model": mlp([8])}, "0.weight is [32, 20], want [8, 20]"),
                ({"teacher": self.path("nothing"), "model": mlp([32])}, "nothing")):
            _, result, _ = run(self.path("student"), fails=True, **synthetic(
                STEPS, model=mlp([12]), distill={"temperature": 4.0, "alpha": 0.5, **distill}))
            self.assertEqual(result["failure_class"], "START_FAILED")
            self.assertIn("train.distill.teacher", result["message"])
            self.assertIn(text, result["message"])

    def test_a_small_student_learns_the_digits_from_a_teacher(self):
        """The recipe of configs/digits-distill.yaml; two seeds, for the difference is small."""
        _, result, taught = run(self.path("teacher"), **on_digits(30, model=mlp([256, 256]), optimizer=ADAMW))
        teacher = result["results"]["test_accuracy"]
        distill = {"teacher": taught[max(taught)], "model": mlp([256, 256]), "temperature": 4.0, "alpha": 0.9}
        alone, accuracy = [], []
        for seed in (3, 4):
            student = on_digits(30, model=mlp([12]), seed=seed)
            _, result, _ = run(self.path(f"alone-{seed}"), **student)
            alone.append(result["results"]["test_accuracy"])
            _, result, places = run(self.path(f"taught-{seed}"), **student, distill=distill)
            accuracy.append(result["results"]["test_accuracy"])
        print(f"digits, test accuracy: teacher {teacher:.4f}, student of 12 units alone {alone}, taught {accuracy}",
              file=sys.stderr)
        self.assertGreater(sum(accuracy) / 2, 0.94)
        self.assertGreater(sum(accuracy), sum(alone))
        with open(os.path.join(places[max(places)], "state.json")) as file:
            state = json.load(file)
        self.assertIn("teacher_fingerprint", state)
        self.assertEqual(state["class_names"], [str(digit) for digit in range(10)])


class Pruning(Test):
    def weights(self):
        generator = torch.Generator().manual_seed(4)
        shapes = {"0.weight": (24, 20), "0.bias": (24,), "2.weight": (16, 24), "2.bias": (16,),
                  "4.weight": (CLASSES, 16), "4.bias": (CLASSES,)}
        weights = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
        save_file(weights, self.path("weights.safetensors"))
        return weights

    def prune_at_once(self, name, settings):
        """A finished network pruned before the first step, then a step of (nearly) nothing."""
        _, result, places = run(self.path(name), **synthetic(
            1, model=mlp([24, 16]), weights={"path": self.path("weights.safetensors"), "strict": True},
            optimizer={"name": "sgd", "lr": 1e-30, "weight_decay": 0.0, "momentum": 0.0, "nesterov": False},
            prune={**PRUNE, "end_step": 0, **settings}))
        place = places[1]
        masks = load_file(os.path.join(place, "optimizer.safetensors"))
        return load_file(os.path.join(place, "model.safetensors")), {
            name[len("mask."):]: mask for name, mask in masks.items() if name.startswith("mask.")}

    def reference(self, weights):
        layers = {}
        for name in ("0", "2", "4"):
            out, into = weights[name + ".weight"].shape
            layers[name] = torch.nn.Linear(into, out)
            layers[name].weight.data.copy_(weights[name + ".weight"])
        return layers

    def compare(self, name, layers, weights, settings):
        pruned, masks = self.prune_at_once(name, settings)
        self.assertEqual(set(masks), {layer + ".weight" for layer in layers})
        for layer, module in layers.items():
            mask = module.weight_mask.bool()
            self.assertTrue(torch.equal(masks[layer + ".weight"], mask), layer)
            self.assertTrue(torch.equal(pruned[layer + ".weight"] != 0, mask), layer)
            self.assertTrue(torch.equal(pruned[layer + ".weight"], module.weight.data), layer)
            self.assertTrue(torch.equal(pruned[layer + ".bias"], weights[layer + ".bias"]), layer)

    def test_the_smallest_of_each_tensor_are_those_of_l1_unstructured(self):
        weights = self.weights()
        layers = self.reference(weights)
        for module in layers.values():
            prune.l1_unstructured(module, "weight", amount=0.7)
        self.compare("tensor", layers, weights, {"sparsity": 0.7})

    def test_the_smallest_of_all_are_those_of_global_unstructured(self):
        weights = self.weights()
        layers = self.reference(weights)
        prune.global_unstructured([(module, "weight") for module in layers.values()], prune.L1Unstructured, amount=0.45)
        self.compare("global", layers, weights, {"sparsity": 0.45, "scope": "global"})

    def test_the_digits_are_still_read_with_a_fifth_and_a_tenth_of_the_weights(self):
        _, result, dense = run(self.path("dense"), **on_digits(30, model=mlp([64])))
        whole = result["results"]["test_accuracy"]
        told = [f"dense {whole:.4f}"]
        for sparsity, kept in ((0.8, 0.025), (0.9, 0.06)):
            # Grown while it learns, from scratch (configs/digits-prune.yaml); and of the finished network, fine-tuned.
            for name, epochs, settings in (
                    ("scratch", 30, {"begin_step": 100, "end_step": 350}),
                    ("finished", 10, {"begin_step": 0, "end_step": 100})):
                extra = {"weights": {"path": dense[max(dense)], "strict": True}} if name == "finished" else {}
                _, result, places = run(self.path(f"{name}-{sparsity}"), **on_digits(
                    epochs, model=mlp([64]), prune={**PRUNE, "sparsity": sparsity, **settings}, **extra))
                accuracy, found = (result["results"][key] for key in ("test_accuracy", "sparsity"))
                told.append(f"{name} at {sparsity:.0%} {accuracy:.4f}")
                self.assertAlmostEqual(found, sparsity, delta=1e-3)
                self.assertGreaterEqual(result["results"]["best_step"], settings["end_step"])
                self.assertGreater(accuracy, whole - kept)
                pruned = load_file(os.path.join(places[max(places)], "model.safetensors"))
                for tensor in ("0.weight", "2.weight"):
                    self.assertEqual((pruned[tensor] == 0).sum().item(), round(sparsity * pruned[tensor].numel()))
        print("pruned digits, test accuracy: " + ", ".join(told), file=sys.stderr)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main(warnings="ignore")  # of sockets that the process's end closes
