"""One run of scripts/gpu-check: the trainer, the Python beside it, and the time that is left. Every wait has a bound.

A task is a dict that both sides understand: `model` (mlp, resnet18, resnet50, vit, gpt2) with its sizes, `samples`,
`batch_size`, `seed`, `lr`, `precision`; muster_train() turns it into a recipe for muster-trainer, benchmarks/gpu/rival.py
builds the same for PyTorch. All data are generated.
"""
import array
import json
import os
import queue
import random
import subprocess
import tempfile
import threading
import time

from muster_gang import Gang, resolved_spec

RIVAL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rival.py")


class Failed(Exception):
    """A check could not be carried out to its end; the text says why."""


class OutOfTime(Failed):
    """The time of the whole run is used up."""


def model_section(task):
    kind = task["model"]
    if kind == "mlp":
        return {"mlp": {"hidden": task["hidden"]}}
    if kind in ("resnet18", "resnet50"):
        return {kind: {"width": task["width"], "stem": task.get("stem", "small")}}
    blocks = {"layers": task["layers"], "heads": task["heads"], "width": task["width"],
              "dropout": task.get("dropout", 0.0)}
    if kind == "vit":
        return {"vit": {**blocks, "patch_size": task["patch"], "mlp_width": 4 * task["width"], "attention_dropout": 0.0}}
    return {"gpt2": {**blocks, "context": task["context"], "vocabulary": task["classes"]}}


def muster_train(task):
    """The `train` section of a job for a task."""
    data = ({"tokens": {"path": task["tokens"], "context": task["context"], "vocabulary": task["classes"]}}
            if "tokens" in task else
            {"synthetic": {"samples": task["samples"], "shape": task["shape"], "classes": task["classes"]}})
    return {"model": model_section(task), "data": data, "batch_size": task["batch_size"], "seed": task["seed"],
            "precision": task["precision"],
            "optimizer": {"name": "adamw", "lr": task["lr"], "weight_decay": 0.01, "beta1": 0.9, "beta2": 0.999,
                          "eps": 1e-8, "momentum": 0.9, "nesterov": False}}


class Run:
    """What is left of a run of muster-trainer."""

    def __init__(self, gang, codes):
        self.codes, self.result = codes, gang.results[0]
        self.values = {}   # of rank 0, by step
        for _, step, values in gang.metrics[0]:
            self.values.setdefault(step, {}).update(values)
        self.losses = {step: values["loss"] for step, values in self.values.items() if "loss" in values}
        self.saved = {line["step"]: line for line in gang.committed}

    def last(self, name):
        return self.values[max(step for step, values in self.values.items() if name in values)][name]


class Rival:
    """A PyTorch process that answers one task after the other."""

    def __init__(self, python, log):
        self.process = subprocess.Popen([python, RIVAL, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=log, text=True)
        self.answers = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for line in self.process.stdout:
            self.answers.put(line)
        self.answers.put("")

    def ask(self, task, seconds):
        try:
            self.process.stdin.write(json.dumps(task) + "\n")
            self.process.stdin.flush()
            line = self.answers.get(timeout=seconds)
        except (OSError, queue.Empty):
            line = ""
        answer = json.loads(line) if line else {"error": f"no answer within {seconds:.0f} s"}
        if "error" in answer:
            raise Failed(f"PyTorch: {answer['error']}")
        return answer

    def end(self):
        self.process.kill()
        self.process.wait()


class Session:
    def __init__(self, folder, trainer, environment, python, device, facts, quick, seconds):
        self.folder, self.trainer, self.environment, self.python = folder, trainer, environment, python
        self.device, self.facts, self.quick = device, facts, quick
        self.deadline = time.monotonic() + seconds
        self.on_gpu = device == "cuda"
        self._rival, self.compilations = None, None
        self.rival_log = open(os.path.join(folder, "rival.log"), "ab")

    def left(self, seconds):
        """So long may something take that would like `seconds`."""
        left = self.deadline - time.monotonic()
        if left < 1:
            raise OutOfTime("not run: the time of the whole run was used up")
        return min(seconds, left)

    def new_folder(self):
        return tempfile.mkdtemp(prefix="run-", dir=self.folder)

    def gang(self, train, steps, ranks=1, save_every=0, resume=(), attempt=1, folder=None, trainer=None):
        """Of muster-trainer through its ordinary loop; not started yet."""
        spec = resolved_spec({"report_every_steps": 1, "threads_per_rank": 1, **train, "steps": steps}, ranks=ranks)
        spec["checkpoint"]["every_steps"] = save_every
        own = [{"gpu": rank} for rank in range(ranks)] if self.on_gpu else None
        return Gang(trainer or self.trainer, spec, folder or self.new_folder(), ranks=ranks, attempt=attempt,
                    resume=resume, environment=self.environment, launch_of=own)

    def train(self, train, steps, seconds=120, may_fail=False, **options):
        seconds = self.left(seconds)
        gang = self.gang(train, steps, **options)
        gang.start()
        try:
            codes = gang.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"muster-trainer did not end within {seconds:.0f} s")
        if any(codes) and not may_fail:
            told = [result["message"] for result in gang.results if result and result.get("message")]
            raise Failed(f"muster-trainer ended with {codes}: {told or gang.log()[-400:]}")
        return Run(gang, codes)

    def ask_rival(self, task, seconds=120):
        seconds = self.left(seconds)
        if self._rival is None:
            self._rival = Rival(self.python, self.rival_log)
        try:
            return self._rival.ask(dict(task, device=self.device), seconds)
        except Failed:
            self.end_rival()
            raise

    def warm_rival(self):
        """Importing torch takes seconds that the trainer can use."""
        if self._rival is None:
            self._rival = Rival(self.python, self.rival_log)

    def end_rival(self):
        if self._rival is not None:
            self._rival.end()
            self._rival = None

    def end(self):
        """Leaves no process behind."""
        self.end_rival()
        if self.compilations is not None:
            self.compilations.finish(0)

    def with_tokens(self, task):
        """Random tokens on disk for a task of gpt2; others stay as they are."""
        if task["model"] != "gpt2":
            return task
        folder, draw = self.new_folder(), random.Random(task["seed"])
        for split, rows in (("train", task["samples"]), ("val", 8)):
            tokens = array.array("H", (draw.randrange(task["classes"]) for _ in range(rows * task["context"] + 1)))
            with open(os.path.join(folder, split + ".bin"), "wb") as file:
                tokens.tofile(file)
        return dict(task, tokens=folder)
