#!/usr/bin/env python3
"""The reconstruction sheets of a masked autoencoder, read with Pillow: the real muster-trainer writes them while it trains."""
import os
import sys
import tempfile
import unittest

ROOT = os.environ.get("MUSTER_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ.get("MUSTER_BIN_DIR", os.path.join(ROOT, "build/release/bin"))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

import numpy as np  # noqa: E402
from PIL import Image  # noqa: E402

from muster_gang import Gang, resolved_spec  # noqa: E402

PICTURES, MARGIN, SIDE, PATCHES, HIDDEN = 8, 2, 64, 16, 12  # worker/train/artifacts/reconstruction_sheet.h
CELL = SIDE + 2 * MARGIN


def train(folder, every, ranks=1):
    """Six steps; returns the folder of the job and the bytes of its last weights."""
    spec = resolved_spec({
        "model": {"mae": {"patch_size": 4, "layers": 1, "heads": 2, "width": 16, "mlp_width": 32, "decoder_layers": 1,
                          "decoder_heads": 1, "decoder_width": 8, "decoder_mlp_width": 16, "mask_ratio": 0.75,
                          "norm_pix_loss": True}},
        "data": {"synthetic": {"samples": 100, "shape": [3, 16, 16], "classes": 2}},
        "batch_size": 8, "steps": 6, "seed": 3, "artifacts": {"reconstructions_every_steps": every},
        "optimizer": {"name": "sgd", "lr": 0.1, "weight_decay": 0.0, "momentum": 0.9, "nesterov": False}}, ranks=ranks)
    gang = Gang(os.path.join(BIN, "muster-trainer"), spec, folder, ranks=ranks).run(120)
    with open(os.path.join(gang.committed[-1]["path"], "model.safetensors"), "rb") as file:
        return os.path.join(folder, "checkpoints"), file.read()


def cells(sheet, row):
    """The pictures of one row: [PICTURES, SIDE, SIDE, 3]."""
    top = row * CELL + MARGIN
    return np.stack([sheet[top:top + SIDE, left:left + SIDE] for left in
                     (column * CELL + MARGIN for column in range(PICTURES))])


class ReconstructionSheet(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="muster-peer-")
        self.addCleanup(place.cleanup)
        self.folder = place.name

    def test_a_picture_every_three_steps_shows_original_masked_and_reconstructed(self):
        job, _ = train(self.folder, every=3, ranks=2)
        artifacts = os.path.join(job, "artifacts")
        self.assertEqual(sorted(os.listdir(artifacts)),
                         ["reconstructions-00000003.png", "reconstructions-00000006.png"])
        sheets = []
        for name in sorted(os.listdir(artifacts)):
            with Image.open(os.path.join(artifacts, name)) as image:
                image.load()
                self.assertEqual((image.format, image.mode), ("PNG", "RGB"))
                self.assertEqual(image.size, (PICTURES * CELL, 3 * CELL))
                sheets.append(np.asarray(image))
        for sheet in sheets:
            original, shown, made = (cells(sheet, row) for row in range(3))
            patch = SIDE // 4
            grey = (shown == 128).all(-1).reshape(PICTURES, 4, patch, 4, patch).all((2, 4))
            self.assertTrue((grey.sum((1, 2)) == HIDDEN).all(), grey.sum((1, 2)))
            hidden = grey.repeat(patch, 1).repeat(patch, 2)
            np.testing.assert_array_equal(shown[~hidden], original[~hidden])
            np.testing.assert_array_equal(made[~hidden], original[~hidden])
            self.assertTrue((made[hidden] != original[hidden]).any())
            self.assertGreater(original.std(), 20)
        np.testing.assert_array_equal(cells(sheets[0], 0), cells(sheets[1], 0))
        np.testing.assert_array_equal(cells(sheets[0], 1), cells(sheets[1], 1))
        self.assertTrue((cells(sheets[0], 2) != cells(sheets[1], 2)).any())

    def test_the_pictures_change_nothing_in_the_run(self):
        _, with_pictures = train(os.path.join(self.folder, "a"), every=2)
        job, without = train(os.path.join(self.folder, "b"), every=0)
        self.assertEqual(with_pictures, without)
        self.assertFalse(os.path.exists(os.path.join(job, "artifacts")))


if __name__ == "__main__":
    unittest.main(warnings="ignore")  # of sockets that the process's end closes
