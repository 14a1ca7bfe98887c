#!/usr/bin/env python3
"""Real photographs as JPEGs, read as people keep them: a folder of classes, tar shards, shards in an object store.

Trains ResNet-18 with the real muster-trainer on parts of two photographs (scripts/setup --tests brings data/photos) and
compares bits: of a run that nobody touched, and of one that reads from S3 (moto) and was killed in the middle.
"""
import io
import json
import os
import random
import sys
import tarfile
import unittest

ROOT = os.environ.get("MUSTER_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ.get("MUSTER_BIN_DIR", os.path.join(ROOT, "build/release/bin"))
PHOTOS = os.path.join(ROOT, "data/photos")
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

from PIL import Image  # noqa: E402

from muster_gang import Gang, resolved_spec  # noqa: E402
from interrupted_runs import InterruptedRuns  # noqa: E402
from s3_stand_in import object_store, upload  # noqa: E402

TRAIN, HELD_OUT = 120, 40  # of each photograph
STEPS = 60
TRAINER = os.path.join(BIN, "muster-trainer")


def parts_of_photographs(folder):
    """folder/train and folder/val with a folder for each photograph: parts of many sizes, some grey, some progressive."""
    draw = random.Random(1)
    for name in ("china", "flower"):
        photo = Image.open(os.path.join(PHOTOS, f"{name}.jpg"))
        for number in range(TRAIN + HELD_OUT):
            width, height = draw.randint(80, 200), draw.randint(80, 200)
            left, top = draw.randint(0, photo.width - width), draw.randint(0, photo.height - height)
            part = photo.crop((left, top, left + width, top + height))
            if number % 17 == 0:
                part = part.convert("L")
            split = "train" if number < TRAIN else "val"
            os.makedirs(os.path.join(folder, split, name), exist_ok=True)
            part.save(os.path.join(folder, split, name, f"{number:03}.jpg"), quality=draw.randint(60, 95),
                      progressive=number % 5 == 0)


def shards_of(folder, out, per_shard=50):
    """The same as WebDataset's shards, in an order of their own."""
    os.makedirs(out)
    classes = sorted(os.listdir(os.path.join(folder, "train")))
    for split in ("train", "val"):
        files = [(label, name) for label, kind in enumerate(classes)
                 for name in os.listdir(os.path.join(folder, split, kind))]
        random.Random(2).shuffle(files)
        for shard in range(0, len(files), per_shard):
            with tarfile.open(os.path.join(out, f"{split}-{shard // per_shard:03}.tar"), "w") as tar:
                for label, name in files[shard:shard + per_shard]:
                    key = f"{classes[label]}/{name.removesuffix('.jpg')}"
                    tar.add(os.path.join(folder, split, classes[label], name), f"{key}.jpg")
                    member = tarfile.TarInfo(f"{key}.cls")
                    member.size = 1
                    tar.addfile(member, io.BytesIO(str(label).encode()))


def recipe(path):
    return {
        "model": {"resnet18": {"width": 8, "stem": "small", "zero_init_residual": False}},
        "data": {"threads": 2,
                 "images": {"path": path, "size": 32, "channels": 3, "mean": [0.45, 0.45, 0.4], "std": [0.25, 0.25, 0.25],
                            "center_crop": 0.875, "upright": False, "classes": 0, "broken_samples": 0}},
        # Else each rank has means and variances of its own, and another number of ranks others.
        "parallel": {"sync_batch_norm": True, "compression": "none", "static_graph": False, "transport": "auto"},
        "batch_size": 24, "steps": STEPS, "validate_every_steps": 15, "seed": 3, "report_every_steps": 1,
        "optimizer": {"name": "adamw", "lr": 0.003, "weight_decay": 0.01, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8},
        "augment": {"crop_padding": 0, "crop_min_area": 0.3, "flip": 0.5, "trivial_augment": True,
                    "rand_augment_operations": 0, "rand_augment_magnitude": 9, "erase": 0.1, "mixup": 0.2, "cutmix": 0.0},
    }


class PhotosFromAnywhere(InterruptedRuns):
    steps = STEPS

    def setUp(self):
        super().setUp()
        self.pictures = os.path.join(self.folder, "pictures")
        parts_of_photographs(self.pictures)
        self.environment = {"MUSTER_INDEX_DIR": os.path.join(self.folder, "index"),
                            "MUSTER_DATA_CACHE": os.path.join(self.folder, "blocks")}

    def gang(self, name, path, ranks, environment=None, **more):
        spec = resolved_spec(recipe(path), ranks=ranks)
        spec["checkpoint"]["every_steps"] = 10
        return Gang(TRAINER, spec, os.path.join(self.folder, name), ranks=ranks,
                    environment={**self.environment, **(environment or {})}, **more)

    def test_a_run_from_an_object_store_that_was_killed_ends_with_the_bits_of_one_from_a_folder(self):
        whole = self.gang("whole", self.pictures, ranks=2).run(600)
        results = whole.results[0]["results"]
        print(json.dumps(results))
        self.assertGreater(results["test_accuracy"], 0.8, "the photographs are not told apart")
        self.assertRegex(whole.log(), r"event=data_limit text=\"[^\"]+ of the time")

        shards = os.path.join(self.folder, "shards")
        shards_of(self.pictures, shards)
        with object_store(self.folder) as store:
            upload(shards, "photos", store)
            path = "s3://photos/"
            saved = self.kill_after(self.gang("remote", path, 2, store), 20)
            self.gang("remote", path, 2, store, attempt=2, resume=saved).run(600)
            self.assertEqual(self.weights("remote"), self.weights("whole"), "the weights differ")
            # The same with another number of ranks: what the machine has read is in its cache.
            resized = self.gang("resized", path, 3, store, attempt=2, resume=saved).run(600)
        self.assertGreater(resized.results[0]["results"]["test_accuracy"], 0.8)
        first = {step: values["loss"] for _, step, values in whole.metrics[0] if "loss" in values}
        again = {step: values["loss"] for _, step, values in resized.metrics[0] if "loss" in values}
        step = saved[0]["step"] + 1
        self.assertAlmostEqual(again[step], first[step], delta=1e-4 * first[step], msg="another batch")


if __name__ == "__main__":
    unittest.main()
