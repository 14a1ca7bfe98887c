#!/usr/bin/env python3
"""The real TensorBoard must read the event files of a run: the scalars that were reported, also over a resume."""
import glob
import os
import sys
import tempfile
import unittest

ROOT = os.environ.get("MUSTER_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ.get("MUSTER_BIN_DIR", os.path.join(ROOT, "build/release/bin"))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: E402

from muster_gang import Gang, resolved_spec  # noqa: E402

STEPS = 30


def train(folder, attempt, steps, resume=()):
    spec = resolved_spec({
        "model": {"mlp": {"hidden": [16]}}, "data": {"synthetic": {"samples": 64, "shape": [8], "classes": 3}},
        "batch_size": 16, "steps": steps, "seed": 5, "report_every_steps": 5, "artifacts": {"tensorboard": True, "confusion": True},
        "optimizer": {"name": "sgd", "lr": 0.1, "weight_decay": 0.0, "momentum": 0.9, "nesterov": False}}, ranks=1)
    spec["checkpoint"]["every_steps"] = 10
    return Gang(os.path.join(BIN, "muster-trainer"), spec, folder, ranks=1, attempt=attempt, resume=resume).run(120)


class TensorBoardReads(unittest.TestCase):
    def test_scalars_and_confusion(self):
        with tempfile.TemporaryDirectory(prefix="muster-peer-") as folder:
            first = train(folder, 1, STEPS)
            checkpoint = next(line for line in first.committed if line["step"] == 10)
            resume = [{"path": checkpoint["path"], "step": 10, "manifest_sha256": checkpoint["manifest_sha256"]}]
            second = train(folder, 2, STEPS, resume)
            artifacts = glob.glob(os.path.join(folder, "checkpoints/**/artifacts"), recursive=True)
            self.assertEqual(len(artifacts), 1)
            self.assertEqual(len(glob.glob(os.path.join(artifacts[0], "events.out.tfevents.*"))), 2)
            events = EventAccumulator(artifacts[0])
            events.Reload()
            loss = [(event.step, event.value) for event in events.Scalars("loss")]
            reported = {step: values["loss"] for gang in (first, second) for _, step, values in gang.metrics[0]
                        if "loss" in values}
            self.assertEqual([step for step, _ in loss], sorted(reported))
            for step, value in loss:
                self.assertAlmostEqual(value, reported[step], places=5)
            self.assertIn("test_accuracy", second.results[0]["results"])
            with open(os.path.join(artifacts[0], "confusion-test.csv")) as file:
                rows = [line.strip().split(",") for line in file][1:]
            counts = [[int(cell) for cell in row[1:]] for row in rows]
            total = sum(map(sum, counts))
            right = sum(counts[i][i] for i in range(len(counts)))
            self.assertAlmostEqual(right / total, second.results[0]["results"]["test_accuracy"], places=6)


if __name__ == "__main__":
    unittest.main()
