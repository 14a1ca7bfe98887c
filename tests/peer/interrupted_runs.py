"""Tests of runs that are killed in the middle, go on, and are compared by the bytes of their models."""
import os
import shutil
import tempfile
import time
import unittest


class InterruptedRuns(unittest.TestCase):
    steps = 0  # of a whole run

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="muster-runs-")
        self.addCleanup(shutil.rmtree, self.folder)

    def weights(self, name):
        """The bytes of the model that the run of this name, a folder below self.folder, ended with."""
        root = os.path.join(self.folder, name, "checkpoints")
        found = [entry for entry in os.listdir(root) if entry.startswith(f"step-{self.steps}.")]
        self.assertEqual(len(found), 1, os.listdir(root))
        with open(os.path.join(root, found[0], "model.safetensors"), "rb") as file:
            return file.read()

    def kill_after(self, gang, step):
        """Runs until a checkpoint of this step is there, then kills every rank. Returns it as a resume wants it."""
        gang.start()
        deadline = time.monotonic() + 300
        while not any(line["step"] >= step for line in gang.committed):
            self.assertLess(time.monotonic(), deadline, gang.log())
            self.assertTrue(all(process.poll() is None for process in gang.processes), gang.log())
            time.sleep(0.005)
        gang.kill()
        gang.wait()
        newest = max(gang.committed, key=lambda line: line["step"])
        self.assertLess(newest["step"], self.steps, "it was over before it was killed")
        return [{"path": newest["path"], "step": newest["step"], "manifest_sha256": newest["manifest_sha256"]}]
