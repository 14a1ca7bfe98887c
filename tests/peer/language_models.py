#!/usr/bin/env python3
"""Muster's GPT-2 against Hugging Face's GPT2LMHeadModel, on real text.

Muster trains a small GPT-2 on this repository's own documentation. The weights that it saved after some steps go into
GPT2LMHeadModel, which must then see the same losses over ten more steps on the same batches, the same loss and
perplexity on the validation set, and the same final weights. The network of the published size gives the same outputs.
"""
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.environ.get("MUSTER_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ.get("MUSTER_BIN_DIR", os.path.join(ROOT, "build/release/bin"))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

import reference_models  # noqa: E402, F401  (before transformers)
import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

import muster_data  # noqa: E402
from muster_gang import Gang, resolved_spec  # noqa: E402

SEED, LR, STEPS = 7, 1e-3, 10


def train(train_section, folder, ranks=1, every_steps=0, timeout=240, resume=(), attempt=1):
    """Runs a gang to its end; returns losses by step, all of rank 0's metrics, results and checkpoint folders by step."""
    recipe = {"seed": SEED, "report_every_steps": 1, "label_smoothing": 0.0,
              "optimizer": {"name": "adamw", "lr": LR, "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}}
    recipe.update(train_section)
    spec = resolved_spec(recipe, ranks=ranks)
    spec["checkpoint"]["every_steps"] = every_steps
    gang = Gang(os.path.join(BIN, "muster-trainer"), spec, folder, ranks=ranks, attempt=attempt, resume=resume).run(timeout)
    metrics = {}
    for _, step, values in gang.metrics[0]:
        metrics.setdefault(step, {}).update(values)
    losses = {step: values["loss"] for step, values in metrics.items() if "loss" in values}
    return losses, metrics, gang.results[0]["results"], {line["step"]: line["path"] for line in gang.committed}


def docs():
    """All of the documentation as one file's bytes."""
    folder = os.path.join(ROOT, "docs")
    text = b""
    for name in sorted(os.listdir(folder)):
        if name.endswith(".md"):
            with open(os.path.join(folder, name), "rb") as file:
                text += file.read()
    return text


def text_rows(count, context):
    """Which rows are in train, validation and test: worker/data/text/token_rows.h in Python."""
    per_block = min(64, max(1, count // 20))
    splits = [[], [], []]
    for row in range(count):
        place = row // per_block % 20
        splits[1 if place == 9 else 2 if place == 19 else 0].append(row)
    return splits


def gpt2(layers, heads, width, context, vocabulary):
    config = transformers.GPT2Config(n_layer=layers, n_head=heads, n_embd=width, n_positions=context,
                                     vocab_size=vocabulary, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                                     bos_token_id=0, eos_token_id=0)
    return transformers.GPT2LMHeadModel(config)


def load_hugging_face(model, folder):
    """Weights from Muster's checkpoint; only the tied head may be missing from it."""
    missing, unexpected = model.load_state_dict(load_file(os.path.join(folder, "model.safetensors")), strict=False)
    if unexpected or missing != ["lm_head.weight"]:
        raise AssertionError(f"missing {missing}, unexpected {unexpected}")
    model.tie_weights()


class Gpt2AgainstHuggingFace(unittest.TestCase):
    CONTEXT, BATCH = 64, 8

    def test_the_same_losses_on_the_same_batches_of_text(self):
        self.compare(256)

    def test_the_same_losses_with_a_vocabulary_so_large_that_logits_come_in_chunks(self):
        self.compare(5000)

    def compare(self, vocabulary):
        context = self.CONTEXT
        text = docs()
        with tempfile.TemporaryDirectory(prefix="muster-peer-") as folder:
            path = os.path.join(folder, "docs.txt")
            with open(path, "wb") as file:
                file.write(text)
            losses, metrics, _, checkpoints = train({
                "model": {"gpt2": {"layers": 3, "heads": 4, "width": 64, "context": context, "vocabulary": vocabulary,
                                   "dropout": 0.0}},
                "data": {"text": {"path": path, "context": context}},
                "batch_size": self.BATCH, "steps": 2 * STEPS, "validate_every_steps": STEPS}, folder, every_steps=STEPS)
            model = gpt2(3, 4, 64, context, vocabulary)
            load_hugging_face(model, checkpoints[STEPS])
            moments = load_file(os.path.join(checkpoints[STEPS], "optimizer.safetensors"))
            final = load_file(os.path.join(checkpoints[2 * STEPS], "model.safetensors"))

        tokens = np.frombuffer(text, np.uint8).astype(np.int64)
        splits = text_rows((len(tokens) - 1) // context, context)

        def batch(rows):
            inputs = np.stack([tokens[row * context:row * context + context] for row in rows])
            targets = np.stack([tokens[row * context + 1:row * context + context + 1] for row in rows])
            return torch.from_numpy(inputs), torch.from_numpy(targets)

        def loss_of(inputs, targets):
            return F.cross_entropy(model(inputs).logits.reshape(-1, vocabulary), targets.reshape(-1))

        with torch.no_grad():
            validation = loss_of(*batch(splits[1])).item()
        self.assertAlmostEqual(metrics[STEPS]["validation_loss"] / validation, 1, delta=1e-4)
        self.assertAlmostEqual(metrics[STEPS]["validation_perplexity"] / math.exp(validation), 1, delta=1e-3)

        optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.1)
        for name, parameter in model.named_parameters():
            optimizer.state[parameter] = {"step": moments["step"].clone(), "exp_avg": moments[f"exp_avg.{name}"].clone(),
                                          "exp_avg_sq": moments[f"exp_avg_sq.{name}"].clone()}
        for step in range(STEPS, 2 * STEPS):
            ids = muster_data.sample_ids(len(splits[0]), self.BATCH, SEED, step, 0, 1)
            optimizer.zero_grad()
            loss = loss_of(*batch([splits[0][i] for i in ids]))
            loss.backward()
            optimizer.step()
            self.assertAlmostEqual(losses[step + 1] / loss.item(), 1, delta=1e-3, msg=f"step {step + 1}")
        state = model.state_dict()
        for name, tensor in final.items():
            torch.testing.assert_close(tensor, state[name], rtol=1e-3, atol=2e-4, msg=lambda text: f"{name}: {text}")

    def test_fresh_weights_have_hugging_faces_distribution(self):
        context = self.CONTEXT
        with tempfile.TemporaryDirectory(prefix="muster-peer-") as folder:
            rng = np.random.default_rng(1)
            for split in ("train", "val"):
                rng.integers(0, 500, 20 * context, np.uint16).tofile(os.path.join(folder, f"{split}.bin"))
            # A learning rate of (nearly) nothing keeps the weights that were drawn.
            _, _, _, checkpoints = train({
                "model": {"gpt2": {"layers": 4, "heads": 4, "width": 128, "context": context, "vocabulary": 500,
                                   "dropout": 0.0}},
                "data": {"tokens": {"path": folder, "context": context, "vocabulary": 500}},
                "batch_size": 2, "steps": 1,
                "optimizer": {"name": "sgd", "lr": 1e-30, "weight_decay": 0.0, "momentum": 0.0, "nesterov": False}}, folder)
            ours = load_file(os.path.join(checkpoints[1], "model.safetensors"))
        torch.manual_seed(1)
        theirs = gpt2(4, 4, 128, context, 500).state_dict()
        self.assertEqual(set(ours), set(theirs) - {"lm_head.weight"})
        for name, tensor in ours.items():
            self.assertEqual(tensor.shape, theirs[name].shape, name)
            if tensor.numel() < 1000:
                self.assertLess((tensor - theirs[name]).abs().max().item(), 1e-20, name)  # norms and biases
            else:
                self.assertAlmostEqual(tensor.std().item() / theirs[name].std().item(), 1, delta=0.05, msg=name)
                self.assertLess(abs(tensor.mean().item()), 1e-3, name)


class Gpt2SmallAgainstHuggingFace(unittest.TestCase):
    def test_the_published_size_gives_hugging_faces_outputs(self):
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval()
        with torch.no_grad():
            for parameter in model.parameters():  # no bias of zero and no norm of one for a mistake to hide behind
                parameter.add_(torch.randn_like(parameter), alpha=0.02)
        tokens = torch.randint(0, 50257, (2, 48))
        with tempfile.TemporaryDirectory(prefix="muster-peer-") as folder, torch.no_grad():
            paths = {name: os.path.join(folder, name) for name in ("spec", "weights", "inputs", "out")}
            with open(paths["spec"], "w") as file:
                json.dump(resolved_spec({
                    "model": {"gpt2": {"layers": 12, "heads": 12, "width": 768, "context": 1024, "vocabulary": 50257,
                                       "dropout": 0.0}},
                    "data": {"tokens": {"path": folder, "context": 48, "vocabulary": 50257}}, "batch_size": 2, "steps": 1,
                    "optimizer": {"name": "sgd", "lr": 0.1}}, ranks=1), file)
            state = {name: tensor for name, tensor in model.state_dict().items() if name != "lm_head.weight"}
            save_file(state, paths["weights"])
            save_file({"inputs": tokens}, paths["inputs"])
            subprocess.run([os.path.join(BIN, "muster-trainer"), "forward", "--spec", paths["spec"], "--weights",
                            paths["weights"], "--inputs", paths["inputs"], "--classes", "50257", "--out", paths["out"]],
                           check=True)
            ours, theirs = load_file(paths["out"])["values"], model(tokens).logits
        print(f"largest difference {(ours - theirs).abs().max().item():.2g} of values up to {theirs.abs().max().item():.3g}")
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


class TwoRanksTrainAsOne(unittest.TestCase):
    def test_two_ranks_see_the_losses_of_one_although_the_token_table_is_used_twice(self):
        losses = []
        for ranks in (1, 2):
            with tempfile.TemporaryDirectory(prefix="muster-peer-") as folder:
                losses.append(train({
                    "model": {"gpt2": {"layers": 2, "heads": 4, "width": 64, "context": 64, "vocabulary": 256,
                                       "dropout": 0.0}},
                    "data": {"text": {"path": os.path.join(ROOT, "docs"), "context": 64}}, "batch_size": 8, "steps": STEPS},
                    folder, ranks=ranks)[0])
        one, two = losses
        for step, loss in one.items():
            self.assertAlmostEqual(two[step] / loss, 1, delta=1e-5, msg=f"step {step}")


class ASmallGpt2LearnsRealText(unittest.TestCase):
    def test_its_loss_falls_clearly_below_the_entropy_of_single_bytes(self):
        folder_of_text = os.path.join(ROOT, "worker")
        counts = np.zeros(256, np.int64)
        for folder, _, names in os.walk(folder_of_text):
            for name in names:
                counts += np.bincount(np.fromfile(os.path.join(folder, name), np.uint8), minlength=256)
        shares = counts[counts > 0] / counts.sum()
        entropy = float(-(shares * np.log(shares)).sum())
        with tempfile.TemporaryDirectory(prefix="muster-peer-") as folder:
            _, _, results, _ = train({
                "model": {"gpt2": {"layers": 2, "heads": 4, "width": 64, "context": 64, "vocabulary": 256, "dropout": 0.0}},
                "data": {"text": {"path": folder_of_text, "context": 64}}, "batch_size": 16, "steps": 600,
                "clip_norm": 1.0, "schedule": {"name": "cosine", "warmup_steps": 50, "final_fraction": 0.1},
                "optimizer": {"name": "adamw", "lr": 4e-3, "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.95,
                              "eps": 1e-8}}, folder)
        print(json.dumps({"unigram_entropy": entropy, **results}))
        self.assertLess(results["test_loss"], 0.75 * entropy)
        self.assertAlmostEqual(results["test_perplexity"] / math.exp(results["test_loss"]), 1, delta=1e-6)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
