#!/usr/bin/env python3
"""configs/resnet50-imagenet.yaml, whole, on a made-up folder of ImageNet's shape: 1,000 classes, odd sizes and odd files.

Only what a CPU cannot bear is made smaller: the network's width, the pictures and the batch. Prints images a second.
"""
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.environ.get("MUSTER_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ.get("MUSTER_BIN_DIR", os.path.join(ROOT, "build/release/bin"))
PHOTOS = os.path.join(ROOT, "data/photos")

from PIL import Image  # noqa: E402

CLASSES, PER_CLASS = 1000, 2
BROKEN = {"n00000003/1.JPEG": "empty", "n00000500/0.JPEG": "cut", "n00000999/1.JPEG": "text"}


def odd_picture(draw, photo, path, number):
    """As ImageNet's are: any size, some grey, CMYK, progressive, and PNG by another name."""
    width, height = draw.choice([(500, 375), (375, 500), (90, 120), (640, 90), (224, 224)])
    left, top = draw.randint(0, photo.width - width), draw.randint(0, max(0, photo.height - height))
    part = photo.crop((left, top, left + width, min(photo.height, top + height))).resize((width // 2, height // 2))
    kind = number % 40
    if kind == 1:
        part.convert("L").save(path, "JPEG")
    elif kind == 2:
        part.convert("CMYK").save(path, "JPEG")
    elif kind == 3:
        part.save(path, "PNG")
    else:
        part.save(path, "JPEG", quality=draw.randint(60, 95), progressive=kind == 4)


def imagenet_of(folder):
    draw = random.Random(1)
    photos = [Image.open(os.path.join(PHOTOS, f"{name}.jpg")).convert("RGB") for name in ("china", "flower")]
    number = 0
    for split, per_class in (("train", PER_CLASS), ("val", 1)):
        for label in range(CLASSES):
            kind = os.path.join(folder, split, f"n{label:08}")
            os.makedirs(kind)
            for i in range(per_class):
                odd_picture(draw, photos[label % 2], os.path.join(kind, f"{i}.JPEG"), number)
                number += 1
    for name, fault in BROKEN.items():
        path = os.path.join(folder, "train", name)
        with open(path, "rb") as file:
            data = file.read()
        with open(path, "wb") as file:
            file.write({"empty": b"", "cut": data[:len(data) // 2], "text": b"<html>not found</html>"}[fault])


class ImagenetRecipe(unittest.TestCase):
    def test_the_recipe_runs_from_end_to_end(self):
        folder = tempfile.mkdtemp(prefix="muster-imagenet-")
        self.addCleanup(shutil.rmtree, folder)
        data = os.path.join(folder, "imagenet")
        imagenet_of(data)
        environment = dict(os.environ, MUSTER_INDEX_DIR=os.path.join(folder, "index"),
                           MUSTER_LOCAL_DIR=os.path.join(folder, "cluster"))

        def muster(*arguments, timeout=600):
            return subprocess.run([os.path.join(BIN, "muster"), *arguments], env=environment, cwd=folder, timeout=timeout,
                                  capture_output=True, text=True)

        found = muster("data", "verify", os.path.join(data, "train"))
        self.assertEqual(found.returncode, 1, found.stdout + found.stderr)
        for name in BROKEN:
            self.assertIn(name.removesuffix(".JPEG"), found.stdout)

        up = muster("local", "up", "--workers", "2", "--any-port")
        self.assertEqual(up.returncode, 0, up.stdout + up.stderr)
        self.addCleanup(lambda: muster("local", "down"))
        settings = {
            "ranks": "2", "per_rank.gpus": "0", "train.data.images.path": data, "train.data.images.size": "48",
            "train.model.resnet50.width": "8", "train.batch_size": "64", "train.epochs": "1", "train.precision": "fp32",
            "train.schedule.warmup_steps": "5", "train.threads_per_rank": "1", "train.report_every_steps": "5",
        }
        overrides = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        run = muster("submit", "-f", os.path.join(ROOT, "configs/resnet50-imagenet.yaml"), *overrides,
                     "--watch", timeout=900)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertRegex(run.stdout + run.stderr, r" [\d.]+/s  [\d,]+ MiB", "it does not say its images a second")
        log = muster("logs", "1").stdout
        print(run.stderr[-500:])
        for name in BROKEN:
            self.assertIn(name.removesuffix(".JPEG"), log, "a broken picture is not named")


if __name__ == "__main__":
    unittest.main()
