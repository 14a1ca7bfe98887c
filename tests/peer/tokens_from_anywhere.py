#!/usr/bin/env python3
"""Real text as token shards, mixed from two corpora of an object store by weights that change.

Trains a small GPT-2 with the real muster-trainer and compares bits: of a run that nobody touched, from a disk, and of one
that reads from S3 (moto), was killed in the middle, and went on.
"""
import glob
import json
import os
import sys
import unittest

ROOT = os.environ.get("MUSTER_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ.get("MUSTER_BIN_DIR", os.path.join(ROOT, "build/release/bin"))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

import numpy as np  # noqa: E402

from muster_gang import Gang, resolved_spec  # noqa: E402
from interrupted_runs import InterruptedRuns  # noqa: E402
from s3_stand_in import object_store, upload  # noqa: E402

TRAINER = os.path.join(BIN, "muster-trainer")
STEPS, SWITCH = 60, 30  # where the weights change
CONTEXT, TOKENS_PER_SHARD = 64, 40_000
ALPHABET = 256


def text_of(*patterns):
    names = sorted(name for pattern in patterns for name in glob.glob(os.path.join(ROOT, pattern), recursive=True))
    text = b""
    for name in names:
        with open(name, "rb") as file:
            text += file.read()
    return text


def write_shard(path, tokens):
    """As llm.c writes them: 256 numbers ahead, then uint16."""
    header = np.zeros(256, np.int32)
    header[:3] = 20240520, 1, len(tokens)
    with open(path, "wb") as file:
        file.write(header.tobytes() + tokens.astype(np.uint16).tobytes())


def shards_of(text, folder):
    """A byte is a token; the last tenth is for validation."""
    os.makedirs(folder)
    tokens = np.frombuffer(text, np.uint8)
    train = len(tokens) * 9 // 10
    for number, begin in enumerate(range(0, train, TOKENS_PER_SHARD)):
        write_shard(os.path.join(folder, f"text_train_{number:06}.bin"), tokens[begin:min(begin + TOKENS_PER_SHARD, train)])
    write_shard(os.path.join(folder, "text_val_000000.bin"), tokens[train:])


def recipe(prose, code):
    def source(name, path, weight):
        return {"name": name, "weight": weight, "tokens": {"path": path, "context": CONTEXT, "vocabulary": ALPHABET}}
    return {
        "model": {"gpt2": {"size": "small", "layers": 2, "heads": 4, "width": 64, "context": CONTEXT,
                           "vocabulary": ALPHABET, "dropout": 0.0}},
        "data": {"shuffle_window": 256,
                 "mixture": {"sources": [source("prose", prose, 3), source("code", code, 1)],
                             "phases": [{"from_step": SWITCH, "weights": [0, 1]}]}},
        "batch_size": 24, "steps": STEPS, "seed": 3, "report_every_steps": 1, "clip_norm": 1.0,
        "optimizer": {"name": "adamw", "lr": 0.003, "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8},
        "validate_every_steps": 20,
    }


class TokensFromAnywhere(InterruptedRuns):
    steps = STEPS

    def setUp(self):
        super().setUp()
        shards_of(text_of("README.md", "docs/**/*.md"), os.path.join(self.folder, "prose"))
        shards_of(text_of("controller/**/*.cc", "worker/train/**/*.cc"), os.path.join(self.folder, "code"))

    def gang(self, name, data, ranks, environment=None, **more):
        spec = resolved_spec(recipe(f"{data}prose", f"{data}code"), ranks=ranks)
        spec["checkpoint"]["every_steps"] = 10
        environment = {"MUSTER_DATA_CACHE": os.path.join(self.folder, "blocks"), **(environment or {})}
        return Gang(TRAINER, spec, os.path.join(self.folder, name), ranks=ranks, environment=environment, **more)

    def test_a_mixture_from_an_object_store_that_was_killed_ends_with_the_bits_of_one_from_a_disk(self):
        whole = self.gang("whole", self.folder + "/", ranks=2).run(600)
        results = whole.results[0]["results"]
        print(json.dumps(results))
        losses = {step: values["loss"] for _, step, values in whole.metrics[0] if "loss" in values}
        self.assertLess(losses[SWITCH], 0.8 * losses[1], "nothing is learnt")

        with object_store(self.folder) as store:
            for corpus in ("prose", "code"):
                upload(os.path.join(self.folder, corpus), corpus, store)
            saved = self.kill_after(self.gang("remote", "s3://", 2, store), 20)
            self.gang("remote", "s3://", 2, store, attempt=2, resume=saved).run(600)
            self.assertEqual(self.weights("remote"), self.weights("whole"), "the weights differ")
            # The same with another number of ranks.
            resized = self.gang("resized", "s3://", 3, store, attempt=2, resume=saved).run(600)
        again = {step: values["loss"] for _, step, values in resized.metrics[0] if "loss" in values}
        for step in (saved[0]["step"] + 1, saved[0]["step"] + 2):
            self.assertAlmostEqual(again[step], losses[step], delta=1e-3 * losses[step], msg="another batch")


if __name__ == "__main__":
    unittest.main()
