"""Muster and PyTorch training for ever, for throughput.py: processes that are stopped (SIGSTOP) but for their turns."""
import json
import math
import os
import signal
import statistics
import subprocess
import tempfile
import threading
import time

from gpu.session import RIVAL, Failed, muster_train


class Contender:
    """A process that trains for ever and says now and then how many steps it has done; stopped but for its turns."""

    def __init__(self):
        self.reports, self.changed, self.process, self.told, self.loss = [], threading.Condition(), None, {}, math.nan

    def heard(self, step, loss, told):
        with self.changed:
            self.reports.append((time.monotonic(), step))
            self.loss, self.told = loss, told
            self.changed.notify_all()

    def await_reports(self, count, seconds):
        """Waits for so many reports from now on; returns them. Raises Failed when there are none in time, or it ended."""
        deadline = time.monotonic() + seconds
        with self.changed:
            first = len(self.reports)
            while len(self.reports) < first + count:
                if self.process.poll() is not None:
                    raise Failed(f"ended with {self.process.returncode}: {self.error()}")
                if time.monotonic() > deadline:
                    raise Failed(f"not ready within {seconds:.0f} s")
                self.changed.wait(0.2)
            return self.reports[first:]

    def turn(self, seconds):
        """Steps per second between the first and the last report of a turn of at least so long."""
        self.process.send_signal(signal.SIGCONT)
        start = self.await_reports(1, 60)[0]  # it reaches back over the time when all stood still
        end = start
        while end[0] - start[0] < seconds:
            end = self.await_reports(1, 60)[-1]
        self.process.send_signal(signal.SIGSTOP)
        return (end[1] - start[1]) / (end[0] - start[0])

    def end(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class MusterContender(Contender):
    def __init__(self, session, task):
        super().__init__()
        threads = min(8, os.cpu_count() or 1) if session.on_gpu else 1
        train = dict(muster_train(task), report_every_steps=task["report_every"], threads_per_rank=threads)
        self.gang = session.gang(train, 10**8)
        self.gang.on_line = lambda rank, line: (
            self.heard(line["step"], line["values"]["loss"], line["values"])
            if line["type"] == "metrics" and "loss" in line["values"] else None)
        self.gang.start()
        self.process = self.gang.processes[0]

    def error(self):
        result = self.gang.results[0]
        return result["message"] if result else "see its log"

    def peak_bytes(self):
        return self.told["memory_peak_bytes"]

    def parts_ms(self, since):
        """Medians of the step's parts over the reports from `since` on."""
        values = [told for _, _, told in self.gang.metrics[0][since:] if "step_seconds" in told]
        return {name: 1e3 * statistics.median(told[f"{name}_seconds"] for told in values)
                for name in ("step", "data", "forward_backward", "optimizer")}


class RivalContender(Contender):
    def __init__(self, session, task, setting):
        super().__init__()
        self.log = tempfile.TemporaryFile("w+", dir=session.folder)
        self.process = subprocess.Popen([session.python, RIVAL, json.dumps(dict(task, setting=setting, device=session.device))],
                                        stdout=subprocess.PIPE, stderr=self.log, text=True, env=rival_environment(session))
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for text in self.process.stdout:
            line = json.loads(text)
            self.heard(line["step"], line["loss"], line)

    def error(self):
        self.log.seek(0)
        return self.log.read().strip()[-300:]

    def peak_bytes(self):
        return self.told["peak_bytes"]


def rival_environment(session):
    return dict(os.environ, TORCHINDUCTOR_CACHE_DIR=os.path.join(session.folder, "inductor"),
                TRITON_CACHE_DIR=os.path.join(session.folder, "triton"))
