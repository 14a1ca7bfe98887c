#!/usr/bin/env python3
"""The lines of docs/DATA.md that convert HDF5: what they write is what the file holds, and a run learns from it."""
import os
import re
import sys
import tempfile
import unittest

ROOT = os.environ.get("MUSTER_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ.get("MUSTER_BIN_DIR", os.path.join(ROOT, "build/release/bin"))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

import h5py  # noqa: E402
import numpy  # noqa: E402

from muster_gang import Gang, resolved_spec  # noqa: E402


def documented_lines():
    with open(os.path.join(ROOT, "docs/DATA.md"), encoding="utf-8") as text:
        section = text.read().split("### HDF5", 1)[1]
    return re.search(r"```python\n(.*?)```", section, re.S).group(1)


class Hdf5ToNumpy(unittest.TestCase):
    def test_arrays_are_the_same_and_are_learnt_from(self):
        random = numpy.random.default_rng(1)
        images = random.integers(0, 256, (2500, 3, 8, 8), numpy.uint8)
        labels = random.integers(0, 4, 2500, numpy.int64)
        with tempfile.TemporaryDirectory(prefix="muster-peer-") as folder:
            with h5py.File(os.path.join(folder, "data.h5"), "w") as file:
                file.create_dataset("images", data=images, chunks=(100, 3, 8, 8), compression="gzip", shuffle=True)
                file.create_dataset("labels", data=labels)
            os.mkdir(os.path.join(folder, "data"))
            before = os.getcwd()
            os.chdir(folder)
            try:
                exec(compile(documented_lines(), "DATA.md", "exec"), {})
            finally:
                os.chdir(before)
            data = os.path.join(folder, "data")
            self.assertTrue(numpy.array_equal(numpy.load(os.path.join(data, "train_inputs.npy")), images))
            self.assertTrue(numpy.array_equal(numpy.load(os.path.join(data, "train_targets.npy")), labels))
            spec = resolved_spec({
                "model": {"mlp": {"hidden": [16]}}, "data": {"numpy": {"path": data}}, "batch_size": 50, "steps": 10,
                "optimizer": {"name": "sgd", "lr": 0.01, "weight_decay": 0.0, "momentum": 0.9, "nesterov": False}}, ranks=1)
            run = Gang(os.path.join(BIN, "muster-trainer"), spec, os.path.join(folder, "run"), ranks=1).run(120)
            self.assertTrue(run.metrics[0])


if __name__ == "__main__":
    unittest.main()
