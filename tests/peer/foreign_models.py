#!/usr/bin/env python3
"""Networks that others made, in Muster's trainer: a TorchScript file written by Python, and a plug-in written in C++.

The TorchScript network must give the losses that it gives in Python, on one rank and on two, go on after a resume as if it
had never stopped, and leave weights that Python loads. The example plug-in is compiled with one line of g++, trained, and
refused when it must be.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.environ.get("MUSTER_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ.get("MUSTER_BIN_DIR", os.path.join(ROOT, "build/release/bin"))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

import muster_data  # noqa: E402
from muster_gang import Gang, resolved_spec  # noqa: E402

SAMPLES, BATCH, CLASSES, SEED, LR, STEPS = 96, 16, 5, 11, 2e-3, 10
SHAPE = [3, 8, 8]


class Network(torch.nn.Module):
    """With what a file may hold: branches, a buffer, batch norm, dropout, a frozen parameter and a tied one."""

    def __init__(self, dropout: float = 0.0):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(8)
        self.dropout = torch.nn.Dropout(dropout)
        self.hidden = torch.nn.Linear(128, 128)
        self.again = torch.nn.Linear(128, 128)
        self.again.weight = self.hidden.weight
        self.scale = torch.nn.Parameter(torch.full((128,), 0.5), requires_grad=False)
        self.head = torch.nn.Linear(128, 5)

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.norm(self.conv(x))), 2).flatten(1)
        if x.shape[0] > 1000000:
            x = -x
        x = torch.relu(self.hidden(x)) * self.scale
        x = self.dropout(torch.relu(self.again(x)))
        return self.head(x)


def run(model, folder, ranks=1, steps=STEPS, attempt=1, resume=(), plugins=None):
    spec = resolved_spec({
        "model": model, "data": {"synthetic": {"samples": SAMPLES, "shape": SHAPE, "classes": CLASSES}},
        "batch_size": BATCH, "steps": steps, "seed": SEED, "report_every_steps": 1,
        "optimizer": {"name": "adamw", "lr": LR, "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}},
        ranks=ranks)
    spec["checkpoint"]["every_steps"] = 5
    launch = {} if plugins is None else {"allow_plugins": plugins}
    gang = Gang(os.path.join(BIN, "muster-trainer"), spec, folder, ranks=ranks, attempt=attempt, resume=resume,
                launch=launch)
    gang.start()
    codes = gang.wait(120)
    losses = {step: values["loss"] for _, step, values in gang.metrics[0] if "loss" in values}
    return codes, losses, {line["step"]: line for line in gang.committed}, gang.results


class TorchScript(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="muster-peer-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = os.path.join(self.folder, "network.pt")

    def write(self, dropout=0.0):
        torch.manual_seed(3)
        network = Network(dropout)
        torch.jit.script(network).save(self.path)
        return network

    def expected(self, network, steps, world=1):
        """Losses of plain PyTorch; on several ranks each has batch norm over its own part of the batch, as in ddp."""
        network.train()
        optimizer = torch.optim.AdamW([p for p in network.parameters() if p.requires_grad], lr=LR, weight_decay=0.1)
        inputs, targets = muster_data.synthetic_train(SAMPLES, SHAPE, CLASSES, SEED)
        losses = {}
        for step in range(steps):
            optimizer.zero_grad()
            parts = []
            for rank in range(world):
                ids = muster_data.sample_ids(SAMPLES, BATCH, SEED, step, rank, world)
                loss = F.cross_entropy(network(torch.from_numpy(inputs[ids])), torch.from_numpy(targets[ids]))
                (loss / world).backward()
                parts.append(loss.item() / world)
            optimizer.step()
            losses[step + 1] = sum(parts)
        return losses

    def compare(self, losses, expected):
        self.assertEqual(sorted(losses), sorted(expected))
        for step, loss in expected.items():
            self.assertAlmostEqual(losses[step] / loss, 1, delta=1e-3, msg=f"step {step}")

    def test_trains_as_in_python_and_its_weights_go_back(self):
        network = self.write()
        codes, losses, committed, results = run({"torchscript": {"path": self.path}}, self.folder, plugins=True)
        self.assertEqual(codes, [0], results)
        self.compare(losses, self.expected(network, STEPS))
        saved = load_file(os.path.join(committed[STEPS]["path"], "model.safetensors"))
        missing, unexpected = network.load_state_dict(dict(saved), strict=False)
        self.assertEqual((missing, unexpected), (["again.weight"], []))
        self.assertTrue(torch.equal(saved["scale"], torch.full((128,), 0.5)))
        self.assertEqual(saved["norm.num_batches_tracked"].item(), STEPS)

    def test_two_ranks_train_it_together(self):
        network = self.write()
        codes, losses, _, results = run({"torchscript": {"path": self.path}}, self.folder, ranks=2, plugins=True)
        self.assertEqual(codes, [0, 0], results)
        self.compare(losses, self.expected(network, STEPS, world=2))

    def test_a_resume_goes_on_bit_for_bit_with_dropout(self):
        self.write(dropout=0.3)
        model = {"torchscript": {"path": self.path}}
        codes, losses, committed, _ = run(model, os.path.join(self.folder, "whole"), plugins=True)
        self.assertEqual(codes, [0])
        half = committed[5]
        resume = [{"path": half["path"], "step": 5, "manifest_sha256": half["manifest_sha256"], "best": False}]
        codes, again, recommitted, results = run(model, os.path.join(self.folder, "resumed"), attempt=2, resume=resume,
                                                plugins=True)
        self.assertEqual(codes, [0], results)
        self.assertEqual(again, {step: loss for step, loss in losses.items() if step > 5})
        before = load_file(os.path.join(committed[STEPS]["path"], "model.safetensors"))
        after = load_file(os.path.join(recommitted[STEPS]["path"], "model.safetensors"))
        for name, tensor in before.items():
            self.assertTrue(torch.equal(tensor, after[name]), name)

    def test_it_is_loaded_only_where_the_agent_allows_it(self):
        self.write()
        for plugins in (False, None):
            codes, _, _, results = run({"torchscript": {"path": self.path}}, self.folder, plugins=plugins)
            self.assertEqual(codes, [1])
            self.assertEqual(results[0]["failure_class"], "START_FAILED")
            self.assertIn("train.model.torchscript: the file holds code", results[0]["message"])
            self.assertIn("--allow-commands", results[0]["message"])

    def test_files_that_do_not_fit_are_refused_by_name(self):
        def refusal():
            codes, _, _, results = run({"torchscript": {"path": self.path}}, self.folder, plugins=True)
            self.assertEqual(codes, [1])
            self.assertEqual(results[0]["failure_class"], "START_FAILED")
            self.assertIn(self.path, results[0]["message"])
            self.assertNotIn("frame #", results[0]["message"])
            return results[0]["message"]

        self.assertIn("network.pt", refusal())
        with open(self.path, "wb") as file:
            file.write(b"no such thing" * 100)
        refusal()
        self.write()
        with open(self.path, "r+b") as file:
            file.truncate(os.path.getsize(self.path) // 2)
        refusal()
        torch.jit.script(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 7))).save(self.path)
        self.assertIn("give logits of shape [2, 7], want [2, 5]", refusal())
        torch.jit.script(torch.nn.Linear(20, 5)).save(self.path)
        refusal()


class Plugin(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="muster-peer-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.path = cls.build("libhighway.so")

    @classmethod
    def build(cls, name, *defines):
        path = os.path.join(cls.folder, name)
        torch_root = os.path.dirname(torch.__file__)
        subprocess.run(["g++", "-std=c++20", "-O1", "-fPIC", "-shared", "-o", path,
                        os.path.join(ROOT, "examples/plugin-model/highway.cc"), "-I", ROOT, *defines,
                        "-isystem", os.path.join(torch_root, "include"),
                        "-isystem", os.path.join(torch_root, "include/torch/csrc/api/include"), "-L", os.path.join(torch_root, "lib"),
                        "-ltorch_cpu", "-lc10"], check=True)
        return path

    def run_plugin(self, path, plugins=True, ranks=1, name="run", **more):
        return run({"plugin": {"path": path, **more}}, os.path.join(self.folder, name), plugins=plugins, ranks=ranks,
                   steps=3 * STEPS)

    def refusal(self, *arguments, **more):
        codes, _, _, results = self.run_plugin(*arguments, **more)
        self.assertEqual(codes, [1])
        self.assertEqual(results[0]["failure_class"], "START_FAILED")
        return results[0]["message"]

    def test_the_example_trains_on_one_rank_as_on_two(self):
        options = {"layers": "2", "width": "32"}
        codes, losses, committed, results = self.run_plugin(self.path, name="one", options=options, model="highway")
        self.assertEqual(codes, [0], results)
        self.assertLess(losses[3 * STEPS], 0.9 * losses[1])
        codes, two, _, results = self.run_plugin(self.path, name="two", options=options, ranks=2)
        self.assertEqual(codes, [0, 0], results)
        for step, loss in losses.items():
            self.assertAlmostEqual(two[step] / loss, 1, delta=1e-3)
        saved = load_file(os.path.join(committed[3 * STEPS]["path"], "model.safetensors"))
        self.assertEqual(saved["layers.1.gate.weight"].shape, (32, 32))
        self.assertEqual(len(saved), 2 * 2 * 2 + 4)

    def test_it_is_loaded_only_where_the_agent_allows_it(self):
        self.assertIn("--allow-commands", self.refusal(self.path, plugins=False))
        self.assertIn("--allow-commands", self.refusal(self.path, plugins=None))

    def test_what_does_not_fit_is_refused_by_name(self):
        self.assertIn("has no model 'lowway' (it has highway)", self.refusal(self.path, model="lowway"))
        message = self.refusal(self.path, options={"width": "0"})
        self.assertIn("option width must be from 1 to 4096; got 0", message)
        self.assertIn(self.path, message)
        self.assertIn("nowhere.so", self.refusal(os.path.join(self.folder, "nowhere.so")))
        self.assertIn("is no plug-in of Muster",
                      self.refusal(os.path.join(os.path.dirname(torch.__file__), "lib/libc10.so")))

    def test_one_built_against_another_version_is_refused(self):
        # Both versions are macros of headers that the library includes first.
        header = os.path.join(self.folder, "other.h")
        for macro, value, message in (("MUSTER_PLUGIN_API_VERSION", "99", "version 99 of worker/models/foreign/plugin.h"),
                                      ("TORCH_VERSION", '"1.0.0"', "was built against torch 1.0.0")):
            with open(header, "w") as file:
                file.write(f'#include "worker/models/foreign/plugin.h"\n#undef {macro}\n#define {macro} {value}\n')
            self.assertIn(message, self.refusal(self.build(f"lib{macro}.so", "-include", header)))


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
