#!/usr/bin/env python3
"""scripts/gpu-check without a GPU: packs this build, runs the packed folder on the CPU, and sees that it can fail."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.environ.get("MUSTER_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.path.dirname(os.environ.get("MUSTER_BIN_DIR", os.path.join(ROOT, "build/release/bin")))
LIMIT_BYTES = 64 << 20
RUN_SECONDS = 280  # 20 on a machine that does nothing else


def run(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=RUN_SECONDS)
    return done.returncode, done.stdout, done.stderr


class GpuCheckDryRun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="muster-gpu-check-test-")
        cls.pack = os.path.join(cls.folder, "pack")
        code, _, error = run(os.path.join(ROOT, "scripts/gpu-check"), "--pack", cls.pack, "--build", BUILD)
        if code != 0:
            raise RuntimeError(f"it could not be packed: {error}")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def check(self, *words, pack=None):
        """Exit code, the JSON (None: none was written) and what went to stderr."""
        out = os.path.join(self.folder, "result.json")
        if os.path.exists(out):
            os.remove(out)
        code, _, error = run(os.path.join(pack or self.pack, "gpu-check"), "--python", sys.executable, "--out", out,
                             "--seconds", str(RUN_SECONDS - 30), *words)
        if not os.path.exists(out):
            return code, None, error
        with open(out) as file:
            return code, json.load(file), error

    def copy(self, name):
        path = os.path.join(self.folder, name)
        shutil.copytree(self.pack, path)
        return path

    def test_the_pack_is_small_and_leaves_out_what_the_machine_has(self):
        files = [os.path.join(place, name) for place, _, names in os.walk(self.pack) for name in names]
        self.assertLess(sum(map(os.path.getsize, files)), LIMIT_BYTES)
        names = {os.path.basename(path) for path in files}
        for prefix in ("libtorch", "libc10", "libcuda", "libnccl", "libc.so", "libm.so", "libgomp"):
            self.assertFalse([name for name in names if name.startswith(prefix)], prefix)
        self.assertTrue([name for name in names if name.startswith("libmimalloc")])
        self.assertTrue(os.path.exists(os.path.join(self.pack, "lib-fallback/libstdc++.so.6")))

    def test_versions_and_parity_are_checked_and_written(self):
        code, result, error = self.check("--device", "cpu", "--quick", "--checks", "environment,parity")
        self.assertEqual(code, 0, error)
        self.assertTrue(result["ok"])
        self.assertEqual(result["device"], "cpu")
        cases = {(case["check"], case["name"]): case for case in result["checks"]}
        self.assertEqual(set(name for _, name in cases), {
            "versions", "mlp fp32", "resnet18 fp32", "resnet18 bf16", "resnet50 fp32", "vit fp32", "gpt2 fp32", "gpt2 bf16"})
        versions = cases["environment", "versions"]["figures"]
        self.assertEqual(versions["torch"], result["built"]["torch"])
        self.assertRegex(versions["muster"], r"^muster-trainer .*commit ([0-9a-f]{12}|unknown)")
        for (check, name), case in cases.items():
            self.assertIs(case["ok"], True, name)
            if check == "parity":
                bound = 2e-2 if "bf16" in name else 1e-3
                self.assertLessEqual(case["figures"]["difference"], bound)
                losses = case["figures"]["muster"]
                # Training moves the losses further than the bound, so that a wrong step would show.
                self.assertGreater(abs(losses[0] - losses[-1]) / losses[0], 2 * bound, name)

    def test_a_network_that_differs_fails_and_the_others_go_on(self):
        pack = self.copy("sabotaged")
        rival = os.path.join(pack, "benchmarks/ddp_rival.py")
        with open(rival) as file:
            text = file.read()
        self.assertIn("layers += [nn.Linear(features, width), nn.ReLU()]", text)
        with open(rival, "w") as file:
            file.write(text.replace("layers += [nn.Linear(features, width), nn.ReLU()]",
                                    "layers += [nn.Linear(features, width), nn.GELU()]"))
        code, result, _ = self.check("--device", "cpu", "--quick", "--checks", "parity:mlp,nccl:two ranks", pack=pack)
        self.assertEqual(code, 1)
        self.assertFalse(result["ok"])
        self.assertEqual([(case["check"], case["ok"]) for case in result["checks"]], [("parity", False), ("nccl", None)])

    def test_a_steps_time_and_gangs_of_two_are_checked(self):
        _, result, error = self.check("--device", "cpu", "--quick", "--checks", "timing,nccl")
        self.assertIsNotNone(result, error)
        cases = {case["name"]: case for case in result["checks"]}
        self.assertEqual(list(cases), ["parts of a step", "two ranks", "sync batch norm", "killed rank"])
        # Whether the parts make up the step is a matter of time here, where other programs run beside it.
        shares = cases.pop("parts of a step")["figures"]["shares"]
        self.assertEqual(max(shares, key=shares.get), "forward_backward")
        self.assertEqual({name: case["ok"] for name, case in cases.items()},
                         {"two ranks": None, "sync batch norm": True, "killed rank": True},
                         [case["text"] for case in cases.values()])

    def test_another_torch_is_refused_with_the_way_out(self):
        pack = self.copy("other-torch")
        path = os.path.join(pack, "manifest.json")
        with open(path) as file:
            manifest = json.load(file)
        with open(path, "w") as file:
            json.dump(dict(manifest, torch="1.0.0"), file)
        code, result, error = self.check("--device", "cpu", pack=pack)
        self.assertEqual((code, result), (2, None))
        self.assertIn("built for torch 1.0.0", error)
        self.assertIn("scripts/check-cuda-build", error)

    def test_a_missing_library_is_named(self):
        pack = self.copy("without-a-library")
        # Under a name that no system has.
        trainer = os.path.join(pack, "bin/muster-trainer")
        with open(trainer, "rb") as file:
            program = file.read()
        self.assertIn(b"libmimalloc.so.2\0", program)
        with open(trainer, "wb") as file:
            file.write(program.replace(b"libmimalloc.so.2\0", b"libnowhere0.so.2\0"))
        code, result, error = self.check("--device", "cpu", pack=pack)
        self.assertEqual((code, result), (2, None))
        self.assertIn("libnowhere", error)

    def test_without_a_build_nothing_is_packed(self):
        code, _, error = run(os.path.join(ROOT, "scripts/gpu-check"), "--pack", os.path.join(self.folder, "none"),
                             "--build", os.path.join(self.folder, "no-build"))
        self.assertEqual(code, 2)
        self.assertIn("scripts/check-cuda-build", error)


if __name__ == "__main__":
    unittest.main()
