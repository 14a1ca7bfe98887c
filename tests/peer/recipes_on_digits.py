#!/usr/bin/env python3
"""Small real versions of the recipes in configs/: the same options together, on scanned digits instead of ImageNet.

Runs the real muster-trainer on data/digits (scripts/setup brings it; it is an error when it is not there).
"""
import os
import shutil
import sys
import tempfile
import unittest

ROOT = os.environ.get("MUSTER_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ.get("MUSTER_BIN_DIR", os.path.join(ROOT, "build/release/bin"))
DIGITS = os.path.join(ROOT, "data/digits/digits.csv")
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

import numpy as np  # noqa: E402

from muster_gang import Gang, resolved_spec  # noqa: E402


def train(folder, ranks, recipe):
    """Returns (results, metrics of rank 0 by name and step)."""
    gang = Gang(os.path.join(BIN, "muster-trainer"), resolved_spec(recipe, ranks=ranks), folder, ranks=ranks).run(900)
    metrics = {}
    for _, step, values in gang.metrics[0]:
        for name, value in values.items():
            metrics.setdefault(name, {})[step] = value
    return gang.results[0]["results"], metrics


def colour_pictures(folder, last=9):
    """The digits 0 to `last` as the arrays that the ImageNet recipe reads: uint8, three channels, 32 pixels wide."""
    rows = np.loadtxt(DIGITS, delimiter=",")
    rows = rows[rows[:, 64] <= last]
    pictures = np.clip(rows[:, :64].reshape(-1, 8, 8) * 16, 0, 255).astype(np.uint8)
    pictures = pictures.repeat(4, 1).repeat(4, 2)[:, None].repeat(3, 1)
    targets = rows[:, 64].astype(np.int64)
    order = np.random.default_rng(0).permutation(len(rows))
    first, second = int(0.7 * len(rows)), int(0.85 * len(rows))
    for split, ids in (("train", order[:first]), ("validation", order[first:second]), ("test", order[second:])):
        np.save(os.path.join(folder, f"{split}_inputs.npy"), pictures[ids])
        np.save(os.path.join(folder, f"{split}_targets.npy"), targets[ids])
    return first


class RecipesOnDigits(unittest.TestCase):
    def test_the_imagenet_recipe_learns_on_two_ranks(self):
        """configs/resnet50-imagenet.yaml but for size: narrower, milder crops, and no mirrored digits."""
        epochs, batch, warm_up = 14, 128, 20
        with tempfile.TemporaryDirectory(prefix="muster-recipe-") as folder:
            samples = colour_pictures(folder)
            results, metrics = train(folder, 2, {
                "model": {"resnet50": {"width": 12, "stem": "imagenet", "zero_init_residual": True}},
                "data": {"numpy": {"path": folder, "mean": [0.3, 0.3, 0.3], "std": [0.35, 0.35, 0.35]}},
                "batch_size": batch, "epochs": epochs, "validate_every_epochs": 2, "seed": 1, "report_every_steps": 1,
                "optimizer": {"name": "sgd", "base_lr": 0.2, "base_batch": 256, "momentum": 0.9, "nesterov": True, "weight_decay": 0.00005,
                              "decay_norms_and_biases": False},
                "schedule": {"name": "cosine", "warmup_steps": warm_up, "final_fraction": 0.0, "start_fraction": 0.0},
                "label_smoothing": 0.1,
                "augment": {"crop_padding": 0, "crop_min_area": 0.6, "flip": 0.0, "rand_augment_operations": 2,
                            "rand_augment_magnitude": 5, "erase": 0.1, "mixup": 0.2, "cutmix": 0.0},
                "ema": {"decay": 0.95, "every_steps": 1}})
        steps = epochs * samples // batch
        rates = metrics["lr"]
        peak = 0.2 * batch / 256  # linear scaling
        self.assertAlmostEqual(max(rates.values()), peak, delta=0.02 * peak)
        self.assertLess(rates[2], 0.2 * peak, "no warm-up")
        self.assertLess(rates[max(rates)], 0.01 * peak, "no cosine down to zero")
        self.assertGreaterEqual(max(rates), steps - 1)
        print(f"test accuracy {results['test_accuracy']:.4f}")
        self.assertGreater(results["test_accuracy"], 0.9, "digits are not learnt")

    def test_the_recipe_of_transfer_learning_needs_few_pictures(self):
        """configs/resnet18-finetune.yaml but for size: a body that knows the digits 0 to 4 learns all ten from 150 pictures."""
        with tempfile.TemporaryDirectory(prefix="muster-recipe-") as folder:
            data = {name: os.path.join(folder, name) for name in ("five", "ten")}
            for name, last in (("five", 4), ("ten", 9)):
                os.makedirs(data[name])
                colour_pictures(data[name], last)
            weights = os.path.join(folder, "resnet18.safetensors")
            adamw = {"name": "adamw", "weight_decay": 0.05, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}

            def recipe(name, **settings):
                return {"model": {"resnet18": {"width": 12, "stem": "imagenet", "zero_init_residual": False}},
                        "data": {"numpy": {"path": data[name], "mean": [0.3, 0.3, 0.3], "std": [0.35, 0.35, 0.35]}},
                        "batch_size": 64, "seed": 1, "label_smoothing": 0.1, "report_every_steps": 1,
                        "schedule": {"name": "cosine", "warmup_steps": 20, "final_fraction": 0.0, "start_fraction": 0.0},
                        "augment": {"crop_padding": 0, "crop_min_area": 0.6, "flip": 0.0, "rand_augment_operations": 0,
                                    "rand_augment_magnitude": 0, "erase": 0.0, "mixup": 0.0, "cutmix": 0.0}, **settings}

            train(os.path.join(folder, "body"), 1, recipe("five", epochs=14, optimizer={"lr": 0.004, **adamw}))
            body = os.path.join(folder, "body", "checkpoints")
            newest = max(os.listdir(body), key=lambda name: os.path.getmtime(os.path.join(body, name)))
            shutil.copy(os.path.join(body, newest, "model.safetensors"), weights)

            few = recipe("ten", epochs=40, ema={"decay": 0.9, "every_steps": 1, "warmup": True}, optimizer={
                "lr": 0.001, **adamw, "groups": [{"pattern": "fc.*", "lr_scale": 10.0},
                                                 {"pattern": "conv1.*", "frozen": True}]})
            few["data"]["subset"] = 150
            taught, metrics = train(os.path.join(folder, "taught"), 1, {**few, "weights": {"path": weights}})
            fresh, _ = train(os.path.join(folder, "fresh"), 1, few)
        counts = {name[len("transfer_"):]: values[0] for name, values in metrics.items() if name.startswith("transfer_")}
        print(f"test accuracy {taught['test_accuracy']:.4f}, from fresh weights {fresh['test_accuracy']:.4f}; {counts}")
        self.assertEqual(counts, {"loaded_tensors": 120, "fresh_tensors": 0, "reshaped_tensors": 2, "unused_tensors": 0})
        self.assertGreater(taught["test_accuracy"], 0.85)
        self.assertGreater(taught["test_accuracy"], fresh["test_accuracy"] + 0.05, "the weights are of no use")

    def test_the_transformer_recipe_learns(self):
        """configs/vit-digits.yaml, shorter."""
        with tempfile.TemporaryDirectory(prefix="muster-recipe-") as folder:
            results, _ = train(folder, 1, {
                "model": {"vit": {"patch_size": 4, "layers": 4, "heads": 4, "width": 64, "mlp_width": 256, "dropout": 0.1,
                                  "attention_dropout": 0.0}},
                "data": {"digits": {"path": os.path.dirname(DIGITS), "image_size": 16}},
                "batch_size": 64, "epochs": 36, "validate_every_epochs": 4, "seed": 1, "clip_norm": 1.0,
                "optimizer": {"name": "adamw", "lr": 0.002, "weight_decay": 0.05, "beta1": 0.9, "beta2": 0.999,
                              "eps": 1e-8},
                "schedule": {"name": "cosine", "warmup_steps": 40, "final_fraction": 0.0, "start_fraction": 0.0},
                "label_smoothing": 0.05})
        print(f"test accuracy {results['test_accuracy']:.4f}")
        self.assertGreater(results["test_accuracy"], 0.9, "digits are not learnt")


if __name__ == "__main__":
    unittest.main()
