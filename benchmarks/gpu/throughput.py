"""Steps per second of Muster beside PyTorch: rows T5 to T7 of the performance table.

All contenders train the same network on batches of the same shapes with AdamW. They are started and warmed up; then they
take turns in short blocks, those whose turn it is not being stopped (SIGSTOP). Muster runs its ordinary loop: gathering
batches, reporting and watching for gradients that are not finite are inside its figure. PyTorch's batches were gathered
before and lie in pinned memory, its optimizer is fused, cudnn picks its fastest kernels. Before that a loss check: PyTorch
continues a checkpoint of the full-size network, for a faster wrong step is void.
"""
import json
import math
import signal
import statistics
import subprocess
import threading
import time

from gpu.checks import Finding, compare_with_pytorch
from gpu.contenders import MusterContender, RivalContender, rival_environment
from gpu.session import RIVAL, Failed

PICTURE = {"shape": [3, 224, 224], "classes": 1000, "seed": 3, "lr": 1e-4, "precision": "bf16"}
ROWS = {
    "resnet50": {"what": "ResNet-50, 224x224, bf16", "unit": "images/s", "settings": ("eager", "compiled"), "bar": 1.0,
                 "bar_against": "compiled", "bound": 2e-2,
                 "task": dict(PICTURE, model="resnet50", width=64, stem="imagenet", batch_size=256, report_every=5)},
    "vit_b_16": {"what": "ViT-B/16, bf16", "unit": "images/s", "settings": ("eager", "compiled"), "bar": 1.0,
                 "bar_against": "compiled", "bound": 2e-2,
                 "task": dict(PICTURE, model="vit", patch=16, layers=12, heads=12, width=768, batch_size=128,
                              report_every=5)},
    "gpt2": {"what": "GPT-2 124M, 1024 tokens, bf16", "unit": "tokens/s", "settings": ("eager", "compiled"), "bar": 1.0,
             "bar_against": "compiled", "bound": 2e-2,
             "task": {"model": "gpt2", "layers": 12, "heads": 12, "width": 768, "context": 1024, "classes": 50257,
                      "seed": 3, "lr": 1e-4, "precision": "bf16", "batch_size": 16, "report_every": 5}},
    "mlp": {"what": "launch-bound MLP 256-256-256-10, batch 64, fp32", "unit": "steps/s",
            "settings": ("eager", "compiled", "graphs"), "bar": 4.0, "bar_against": "eager", "bound": 1e-3,
            "task": {"model": "mlp", "hidden": [256, 256], "shape": [256], "classes": 10, "seed": 3, "lr": 1e-3,
                     "precision": "fp32", "batch_size": 64, "report_every": 500}},
}
# What tries the script without a GPU.
ON_CPU = {
    "resnet50": {"width": 8, "shape": [3, 64, 64], "classes": 10, "batch_size": 4, "report_every": 1},
    "vit_b_16": {"layers": 2, "heads": 3, "width": 48, "shape": [3, 64, 64], "classes": 10, "batch_size": 4,
                 "report_every": 2},
    "gpt2": {"layers": 2, "heads": 2, "width": 64, "context": 64, "classes": 512, "batch_size": 4, "report_every": 2},
    "mlp": {"report_every": 20},
}
BATCHES = 2             # distinct ones; all contenders see them again and again
CHECK_BATCH, CHECK_SAVED, CHECK_STEPS = 8, 3, 3
FULL_MEMORY = 70 << 30  # bytes of GPU memory that the batch sizes above are for
MOST_WARM_SECONDS, FEWEST_WARM_SECONDS = 150, 45  # to the second report, torch.compile's start included
MOST_BLOCKS, FEWEST_BLOCKS = 5, 3


def rows_here(session):
    """The rows with the sizes that fit this machine."""
    rows = {}
    for name, row in ROWS.items():
        task = dict(row["task"])
        if session.on_gpu:
            memory, shrunk = session.facts["gpus"][0]["memory_bytes"], 1
            while memory * shrunk < FULL_MEMORY and shrunk < 16:
                shrunk *= 2
            if name != "mlp":
                task["batch_size"] = max(1, task["batch_size"] // shrunk)
        else:
            task.update(ON_CPU[name])
            row = dict(row, what=f"{name} in a size for CPUs, {task['precision']}", bar=None,
                       settings=tuple(who for who in row["settings"] if who != "graphs"))
        task["samples"] = BATCHES * task["batch_size"]
        rows[name] = dict(row, task=task)
    return rows


class Compilations:
    """Compiles the rivals' networks beside the other checks, into the cache that the rows then use."""

    def __init__(self, session):
        self.session, self.process, self.ended = session, None, False
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self):
        for row in rows_here(self.session).values():
            if row["task"]["model"] == "gpt2":
                row["task"] = self.session.with_tokens(row["task"])
            if self.ended:
                return
            self.process = subprocess.Popen(
                [self.session.python, RIVAL, json.dumps(dict(row["task"], setting="compiled", device=self.session.device,
                                                             stop_after=2))],
                stdout=subprocess.DEVNULL, stderr=self.session.rival_log, env=rival_environment(self.session))
            self.process.wait()

    def finish(self, seconds):
        """Waits so long, then ends what still compiles."""
        self.thread.join(seconds)
        self.ended = True
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
        self.thread.join(10)


def start_all(session, row, seconds):
    """Contenders that are warm and stopped, by name, and why others are not among them."""
    task, contenders, absent = row["task"], {}, {}
    contenders["muster"] = MusterContender(session, task)
    for setting in row["settings"]:
        contenders[setting] = RivalContender(session, task, setting)

    def warm(who):
        try:
            contenders[who].await_reports(2, session.left(seconds))
            contenders[who].process.send_signal(signal.SIGSTOP)
        except Failed as error:
            absent[who] = str(error)

    threads = [threading.Thread(target=warm, args=(who,)) for who in contenders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for who in absent:
        contenders.pop(who).end()
    return contenders, absent


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values), "all": values}


def take_turns(session, contenders, until):
    """Steps per second of each contender in each block."""
    seconds = 3.0 if session.on_gpu else 1.0
    rates = {who: [] for who in contenders}
    for block in range(MOST_BLOCKS if session.on_gpu else FEWEST_BLOCKS):
        now = time.monotonic()
        if now > session.deadline and block > 0 or now > until and block >= FEWEST_BLOCKS:
            break
        for who, contender in contenders.items():
            rates[who].append(contender.turn(seconds))
    return rates


def measure(session, row, until):
    warm = min(MOST_WARM_SECONDS, max(FEWEST_WARM_SECONDS, 0.6 * (until - time.monotonic())))
    contenders, absent = start_all(session, row, warm)
    try:
        if "muster" in absent:
            raise Failed(f"muster-trainer {absent['muster']}")
        if len(contenders) == 1:
            raise Failed(f"no PyTorch to compare with: {absent}")
        before = len(contenders["muster"].gang.metrics[0])
        rates = take_turns(session, contenders, until)
        losses = {who: contender.loss for who, contender in contenders.items()}
        peaks = {who: contender.peak_bytes() for who, contender in contenders.items()}
        parts = contenders["muster"].parts_ms(before)
    finally:
        for contender in contenders.values():
            contender.end()
    task = row["task"]
    items = {"images/s": task["batch_size"], "tokens/s": task["batch_size"] * task.get("context", 1), "steps/s": 1}[row["unit"]]
    ratios = {who: spread([ours / theirs for ours, theirs in zip(rates["muster"], rates[who])])
              for who in rates if who != "muster"}
    return {"rates": {who: spread([items * rate for rate in values]) for who, values in rates.items()}, "ratios": ratios,
            "peak_bytes": peaks, "step_parts_ms": parts, "losses": losses, "absent": absent}


def throughput(session):
    rows = rows_here(session)
    names = list(rows)

    def case(name):
        row = rows[name]

        def check():
            if session.quick:
                return Finding(None, "not run: --quick")
            share = (session.deadline - time.monotonic()) / (len(names) - names.index(name))
            until = time.monotonic() + share
            small = dict(row["task"], batch_size=min(CHECK_BATCH, row["task"]["batch_size"]), samples=4 * CHECK_BATCH)
            losses = compare_with_pytorch(session, small, row["bound"], save_at=CHECK_SAVED, steps=CHECK_STEPS)
            session.end_rival()  # its memory is the contenders'
            figures = measure(session, dict(row, task=session.with_tokens(row["task"])), until)
            finite = all(math.isfinite(loss) for loss in figures["losses"].values())
            best = max(figures["ratios"], key=lambda who: figures["rates"][who]["median"])
            text = (f"{figures['rates']['muster']['median']:,.1f} {row['unit']}, {figures['ratios'][best]['median']:.2f} "
                    f"of PyTorch {best}; {losses.text}")
            text += "".join(f"; without {who}: {why}" for who, why in figures["absent"].items())
            return Finding(losses.ok and finite, text, what=f"{row['what']}, batch {row['task']['batch_size']}",
                           unit=row["unit"], bar=row["bar"], bar_against=row["bar_against"], task=row["task"],
                           loss_difference=losses.figures["difference"], **figures)
        return check

    for name in names:
        yield name, f"{rows[name]['bound']:g} between the losses; of speed: a reading", case(name)
