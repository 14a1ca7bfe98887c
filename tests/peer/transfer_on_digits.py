#!/usr/bin/env python3
"""Real training on the handwritten digits: every optimizer learns them, and weights travel from one run to another.

Runs the real muster-trainer on data/digits (scripts/setup brings it; it is an error when it is not there).
"""
import os
import sys
import tempfile
import unittest

ROOT = os.environ.get("MUSTER_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ.get("MUSTER_BIN_DIR", os.path.join(ROOT, "build/release/bin"))
DIGITS = os.path.join(ROOT, "data/digits")
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

import numpy as np  # noqa: E402
from safetensors.numpy import load_file, save_file  # noqa: E402

from muster_gang import Gang, resolved_spec  # noqa: E402

ADAM = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
OPTIMIZERS = {
    "sgd": {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-4},
    "adam": {"lr": 0.003, "weight_decay": 0.0, **ADAM},
    "adamw": {"lr": 0.003, "weight_decay": 0.01, **ADAM},
    "lars": {"lr": 8.0, "momentum": 0.9, "trust_coefficient": 0.001, "weight_decay": 1e-4},
    "lamb": {"lr": 0.02, "weight_decay": 0.01, **ADAM, "eps": 1e-6},
    "lion": {"lr": 0.002, "weight_decay": 0.01, "beta1": 0.9, "beta2": 0.99},
}


def train(folder, epochs, optimizer, digits=DIGITS, hidden=(64,), seed=3, **settings):
    """Returns (result line, path of the last checkpoint, metrics by name and step, the log)."""
    spec = resolved_spec({
        "model": {"mlp": {"hidden": list(hidden)}}, "data": {"digits": {"path": digits, "image_size": 8}},
        "batch_size": 64, "epochs": epochs, "seed": seed, "validate_every_epochs": 5, "optimizer": optimizer,
        "schedule": {"name": "cosine", "warmup_steps": 10, "final_fraction": 0.0, "start_fraction": 0.0}, **settings},
        ranks=1)
    gang = Gang(os.path.join(BIN, "muster-trainer"), spec, folder, ranks=1).run(240)
    metrics = {}
    for _, step, values in gang.metrics[0]:
        for name, value in values.items():
            metrics.setdefault(name, {})[step] = value
    return gang.results[0], gang.committed[-1]["path"], metrics, gang.log()


def few_digits(folder, last):
    """digits.csv as long as the real one, of the digits 0 to `last` alone."""
    with open(os.path.join(DIGITS, "digits.csv")) as file:
        lines = file.read().splitlines()
    kept = [line for line in lines if int(line.rsplit(",", 1)[1]) <= last]
    os.makedirs(folder)
    with open(os.path.join(folder, "digits.csv"), "w") as file:
        file.write("".join(kept[i % len(kept)] + "\n" for i in range(len(lines))))
    return folder


class OnDigits(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="muster-digits-")
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def test_every_optimizer_learns_them(self):
        for name, settings in OPTIMIZERS.items():
            with self.subTest(name):
                result, _, _, _ = train(self.path(name), 15, {"name": name, "decay_norms_and_biases": False, **settings})
                print(f"{name}: test accuracy {result['results']['test_accuracy']:.4f}")
                self.assertGreater(result["results"]["test_accuracy"], 0.93)

    def test_averaged_weights_are_judged_and_saved(self):
        result, path, _, _ = train(self.path("ema"), 15, {"name": "adamw", **OPTIMIZERS["adamw"]},
                                   ema={"decay": 0.98, "every_steps": 1, "warmup": True})
        print(f"averages: test accuracy {result['results']['test_accuracy']:.4f}")
        self.assertGreater(result["results"]["test_accuracy"], 0.93)
        saved = load_file(os.path.join(path, "model.safetensors"))
        self.assertEqual({name for name in saved if name.startswith("ema.")},
                         {"ema." + name for name in saved if not name.startswith("ema.")})

    def probe(self, name, **settings):
        """Trains the head alone: the digits 5 to 9 are new to a body that knows 0 to 4."""
        return train(self.path(name), 15, {"name": "adamw", **OPTIMIZERS["adamw"], "lr": 0.02,
                                           "groups": [{"pattern": "0.*", "frozen": True}]}, seed=9, **settings)

    def test_a_frozen_body_from_half_of_the_digits_serves_all_of_them(self):
        _, body, _, _ = train(self.path("body"), 15, {"name": "adamw", **OPTIMIZERS["adamw"]},
                              digits=few_digits(self.path("few"), 4))
        before = load_file(os.path.join(body, "model.safetensors"))
        result, path, metrics, log = self.probe("probe", weights={"path": body, "ignore": ["2.*"], "strict": False})
        after = load_file(os.path.join(path, "model.safetensors"))
        accuracy = result["results"]["test_accuracy"]
        print(f"head alone on a body of the digits 0 to 4: test accuracy {accuracy:.4f}")
        self.assertGreater(accuracy, 0.88)
        for name in ("0.weight", "0.bias"):
            np.testing.assert_array_equal(before[name], after[name])
        self.assertFalse(np.array_equal(before["2.weight"], after["2.weight"]))
        self.assertEqual(metrics["transfer_loaded_tensors"], {0: 2})
        self.assertIn("event=weights_ignored", log)
        self.assertEqual({name for name in load_file(os.path.join(path, "optimizer.safetensors"))},
                         {"step", "exp_avg.2.weight", "exp_avg.2.bias", "exp_avg_sq.2.weight", "exp_avg_sq.2.bias"})

    def test_a_foreign_file_is_renamed_and_its_head_of_other_classes_replaced(self):
        random = np.random.default_rng(1)
        foreign = {"net.fc1.weight": random.normal(0, 0.2, (64, 64)).astype(np.float32),
                   "net.fc1.bias": np.zeros(64, np.float32), "net.fc2.weight": np.ones((5, 64), np.float32),
                   "net.fc2.bias": np.ones(5, np.float32), "net.extra": np.ones(1, np.float32)}
        save_file(foreign, self.path("foreign.safetensors"))
        rules = [{"from": "net.fc1.*", "to": "0.*"}, {"from": "net.fc2.*", "to": "2.*"}]
        result, path, metrics, log = self.probe(
            "foreign", weights={"path": self.path("foreign.safetensors"), "map": rules, "strict": False})
        np.testing.assert_array_equal(foreign["net.fc1.weight"],
                                      load_file(os.path.join(path, "model.safetensors"))["0.weight"])
        counts = {name: values[0] for name, values in metrics.items() if name.startswith("transfer_")}
        self.assertEqual(counts, {"transfer_loaded_tensors": 2, "transfer_fresh_tensors": 0,
                                  "transfer_reshaped_tensors": 2, "transfer_unused_tensors": 1})
        self.assertIn("event=weights_head_replaced", log)
        self.assertIn("event=weights_unused", log)
        self.assertGreater(result["results"]["test_accuracy"], 0.8)


if __name__ == "__main__":
    unittest.main()
