#!/usr/bin/env python3
"""Every panel of every board has data when Debian's Prometheus has watched a real Muster: a job of two ranks on two workers
that loses a rank, then a worker, and is suspended; a language model; a command that reports; a call that fails; a machine that
its cloud takes away.

Panels that can have none here are named below, with the reason; a panel that is named and has data fails the test as well.
"""
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

from fake_metadata import FakeMetadata
from monitored_muster import BIN, ROOT, MonitoredMuster, digits_job, wait_for

sys.path.insert(0, str(ROOT / "deploy/grafana"))

from board_queries import Board, fill_in, read_boards  # noqa: E402

GPU = "needs a GPU: agents read it from NVML"
FP16 = "needs fp16, which CPUs do not train in"
WITHOUT_DATA = {
    ("muster-fleet", "Memory in use"): GPU,
    ("muster-fleet", "Utilization"): GPU,
    ("muster-fleet", "Power"): GPU,
    ("muster-fleet", "Temperature"): GPU,
    ("muster-job", "Energy drawn"): GPU,
    ("muster-job", "fp16: loss scale"): FP16,
    ("muster-job", "fp16: steps that overflowed"): FP16,
}
RATE_INTERVAL = "20s"  # Grafana's, at a scrape interval of 5 s
REPORTER = """
import sys
sys.path.insert(0, sys.argv[1])
from muster_client import Muster
import time
muster = Muster()
for step in range(1, 6):
    muster.metrics(step, reward=step / 5)
    time.sleep(1)
"""


def text_job() -> dict[str, object]:
    return {"name": "text", "ranks": 1,
            "train": {"model": {"gpt2": {"layers": 1, "heads": 2, "width": 32}},
                      "data": {"text": {"path": str(ROOT / "docs"), "context": 32}}, "batch_size": 16, "steps": 600,
                      "optimizer": {"name": "adamw", "lr": 0.004}, "validate_every_steps": 20, "validate_every_epochs": 0,
                      "seed": 1, "report_every_steps": 5},
            "checkpoint": {"every_steps": 20}}


def live(muster: MonitoredMuster, cloud: FakeMetadata) -> list[str]:
    """What happens in the run; the ids of its jobs."""
    digits = muster.submit(digits_job(train={"augment": {"crop_padding": 1}}))
    muster.wait_for_step(digits, 60)
    os.kill(muster.rank_pids(digits)[1], signal.SIGKILL)
    muster.wait_for_state(digits, "RECOVERING", "PENDING", "PLACED", "STARTING")
    wait_for(lambda: int(muster.show(digits)["summary"]["restarts"]) >= 1, "a restart")
    muster.wait_for_state(digits, "RUNNING")
    time.sleep(5)
    muster.kill("worker-2")
    wait_for(lambda: muster.value('muster_workers{state="lost"} == 1'), "worker-2 to be lost")
    muster.start_worker("worker-2", "--preemption-source", "aws", "--preemption-url", cloud.url)
    wait_for(lambda: int(muster.show(digits)["summary"]["restarts"]) >= 2, "a second restart")
    muster.wait_for_state(digits, "RUNNING")
    muster.muster("suspend", digits)
    muster.wait_for_state(digits, "SUSPENDED")

    text = muster.submit(text_job())
    argv = [sys.executable, "-c", REPORTER, str(ROOT / "examples")]
    reporter = muster.submit({"name": "reports", "command": {"argv": argv}})
    for job in (text, reporter):
        if muster.wait_for_state(job, "SUCCEEDED", "FAILED") != "SUCCEEDED":
            raise AssertionError(f"job {job}: {muster.show(job)['summary']}\n{muster.muster('logs', job)}")
    muster.muster("resume", digits)
    muster.wait_for_state(digits, "RUNNING")
    for _ in range(12):
        found = subprocess.run([str(BIN / "muster"), "show", "987654321"], env=muster.environment, capture_output=True,
                               check=False)
        assert found.returncode == 3, found
        time.sleep(0.5)
    cloud.interrupt()
    muster.wait_for_value('muster_worker_preemption_pending{worker="worker-2"} == 1')
    muster.wait_for_value('increase(muster_worker_preemption_notices_total{worker="worker-2"}[20s]) > 0')
    time.sleep(3)
    return [digits, text, reporter]


def panels_without_data(muster: MonitoredMuster, board: Board, jobs: list[str]) -> set[tuple[str, str]]:
    """Queries without data, as board and panel; those of one job have some when they have it for any of the jobs."""
    start, end = muster.started, time.time()
    values: dict[str, str] = {one.name: ".*" for one in board.variables if one.several}
    choices = [values | {"job": job} for job in jobs] if any(not one.several for one in board.variables) else [values]
    empty = set()
    for panel in board.panels():
        for expr, _ in panel.queries:
            if not any(muster.prometheus.range(fill_in(expr, choice, RATE_INTERVAL), start, end, 1) for choice in choices):
                empty.add((board.uid, panel.title))
    return empty


class BoardsOverARun(unittest.TestCase):
    def test_every_panel_has_data(self) -> None:
        cloud = FakeMetadata()
        self.addCleanup(cloud.close)
        muster = MonitoredMuster(workers=2, slots=1)
        self.addCleanup(muster.close)
        jobs = live(muster, cloud)
        boards = read_boards()
        self.assertEqual(len(boards), 4)
        empty: set[tuple[str, str]] = set()
        for board in boards:
            for variable in board.variables:
                metric = fill_in(variable.metric, {one.name: ".*" for one in board.variables}, RATE_INTERVAL)
                self.assertNotEqual(muster.prometheus.label_values(metric, variable.label), [], (board.uid, variable.name))
            empty |= panels_without_data(muster, board, jobs)
        # For people: `MUSTER_DRAW=FOLDER` draws the boards of this run.
        if folder := os.environ.get("MUSTER_DRAW"):
            python = os.environ.get("MUSTER_DRAW_PYTHON", sys.executable)
            for board in boards:
                subprocess.run([python, str(ROOT / "deploy/grafana/draw_boards.py"), "--prometheus", muster.prometheus.url,
                                "--minutes", str((time.time() - muster.started) / 60), "--out", str(pathlib.Path(folder)),
                                "--board", board.uid] + (["--set", f"job={jobs[0]}"] if board.uid == "muster-job" else []),
                               check=True)
        self.assertEqual(empty, set(WITHOUT_DATA), "queries without data, and those that may have none here")


if __name__ == "__main__":
    unittest.main()
