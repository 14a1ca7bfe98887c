#!/usr/bin/env python3
"""What would end a run at its start ends the check of its recipe, with the same words and no success.

Runs the real muster-trainer twice on each recipe: as the rank of a job, and as `muster-trainer check`.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.environ.get("MUSTER_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
TRAINER = os.path.join(os.environ.get("MUSTER_BIN_DIR", os.path.join(ROOT, "build/release/bin")), "muster-trainer")
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

from muster_gang import Gang, resolved_spec  # noqa: E402

SAMPLES, BATCH, EPOCHS = 256, 32, 2  # 16 steps
PRUNE = {"sparsity": 0.5, "begin_step": 0, "end_step": 10, "every_steps": 2, "pattern": "*.weight", "scope": "tensor"}


def recipe(**settings):
    return {"model": {"mlp": {"hidden": [16]}}, "data": {"synthetic": {"samples": SAMPLES, "shape": [8], "classes": 4}},
            "batch_size": BATCH, "epochs": EPOCHS, **settings,
            "optimizer": {"name": "adamw", "lr": 0.01, "weight_decay": 0.0, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8,
                          **settings.get("optimizer", {})}}


class CheckFailsAsTheRun(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="muster-check-")
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def run_job(self, spec):
        """Returns (exit codes, message, failure class) of its first rank."""
        ranks = spec["ranks"]["min"]
        gang = Gang(TRAINER, spec, self.path("job"), ranks=ranks)
        gang.start()
        codes = gang.wait(120)
        return codes, gang.results[0]["message"], gang.results[0]["failure_class"]

    def check(self, spec):
        with open(self.path("spec.json"), "w") as file:
            json.dump(spec, file)
        return subprocess.run([TRAINER, "check", "--spec", self.path("spec.json")], capture_output=True, text=True,
                              timeout=120)

    def test_of_what_cannot_start(self):
        garbage = self.path("garbage.safetensors")
        with open(garbage, "w") as file:
            file.write("these are no weights")
        bad = {
            "weights that are not there": {"weights": {"path": self.path("nowhere"), "strict": False}},
            "weights that are none": {"weights": {"path": garbage, "strict": False}},
            # A run of two ranks takes 16 steps; one with the batch of a single rank would take 32.
            "pruning beyond the last step": {"prune": {**PRUNE, "end_step": 20}},
            "pruning of nothing": {"prune": {**PRUNE, "pattern": "encoder.*"}},
            "a teacher that is not there": {"distill": {"teacher": self.path("nowhere"), "temperature": 4.0, "alpha": 0.5,
                                                        "model": {"mlp": {"hidden": [16]}}}},
            "groups of nothing": {"optimizer": {"groups": [{"pattern": "encoder.*", "frozen": True}]}},
            "pictures that are none": {"augment": {"crop_padding": 2, "crop_min_area": 0.0, "flip": 0.5,
                                                   "rand_augment_operations": 0, "rand_augment_magnitude": 0, "erase": 0.0,
                                                   "mixup": 0.0, "cutmix": 0.0}},
        }
        for name, settings in bad.items():
            with self.subTest(name):
                spec = resolved_spec(recipe(**settings), ranks=2)
                codes, message, failure = self.run_job(spec)
                self.assertEqual((codes, failure), ([1, 1], "START_FAILED"))
                check = self.check(spec)
                print(f"{name}: check exits with {check.returncode}: {message}")
                self.assertNotEqual(check.returncode, 0)
                self.assertEqual(check.stderr.splitlines()[-1], f"muster-trainer: {message}")
                self.assertEqual(check.stdout, "")

    def test_of_what_can(self):
        spec = resolved_spec(recipe(prune=PRUNE, ema={"decay": 0.9, "every_steps": 1, "warmup": True}), ranks=2)
        codes, _, _ = self.run_job(spec)
        self.assertEqual(codes, [0, 0])
        check = self.check(spec)
        self.assertEqual(check.returncode, 0, check.stderr)
        self.assertIn("16 steps to train", check.stdout)
        self.assertIn("moving average", check.stdout)


if __name__ == "__main__":
    unittest.main()
