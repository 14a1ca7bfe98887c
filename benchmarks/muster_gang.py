"""Runs a gang of real muster-trainer processes without controller and agent, for benchmarks.

Plays the agent's part on each rank's socket (worker/link/link_messages.h): keeps the rendezvous store, acknowledges
metrics, allows every checkpoint at once. What is measured is the trainer itself, through its ordinary loop.
"""
import base64
import json
import os
import socket
import subprocess
import threading
import time


def resolved_spec(train, name="bench", ranks=2):
    """A whole resolved spec around a `train` section; the trainer wants every default written out."""
    recipe = {
        "schedule": {"name": "constant", "warmup_steps": 0, "final_fraction": 0.0},
        "precision": "fp32", "clip_norm": 0.0, "label_smoothing": 0.0, "validate_every_epochs": 0,
        "validate_every_steps": 0, "seed": 0, "threads_per_rank": 1, "deterministic": False,
        "report_every_steps": 10,
        "parallel": {"sync_batch_norm": False, "compression": "none", "static_graph": False, "transport": "auto"},
    }
    recipe.update(train)
    recipe["optimizer"] = {"layer_decay": 1.0, "decay_norms_and_biases": True, **recipe.get("optimizer", {})}
    return {
        "name": name, "project": "default", "ranks": {"min": ranks, "max": ranks}, "per_rank": {"gpus": 0},
        "placement": {"pool": "default", "wait_for_capacity": False},
        "checkpoint": {"every_steps": 0, "every_epochs": 0, "keep_last": 3},
        "restart": {"max_restarts": 5, "backoff": "1s", "max_backoff": "1m", "controller_lost_timeout": "1h",
                    "progress_timeout": "10m"},
        "train": recipe,
    }


class Gang:
    """One attempt of one job: run() is all of it. Or start() spawns the ranks, and wait() is for their end."""

    def __init__(self, trainer, spec, folder, ranks=2, attempt=1, resume=(), environment=None, launch=None,
                 launch_of=None):
        self.trainer, self.spec, self.folder, self.ranks = trainer, spec, folder, ranks
        self.attempt, self.resume, self.environment = attempt, list(resume), environment or {}
        self.launch = launch or {}                   # laid over what each rank is told
        self.launch_of = launch_of or [{}] * ranks   # the same of each rank
        self.launcher = []                           # a command that starts the trainer
        self.metrics = [[] for _ in range(ranks)]    # (arrival, step, values) of each rank
        self.results = [None] * ranks
        self.committed = []                          # checkpoint lines of kind commit
        self.processes, self.threads, self.sockets = [], [], []
        self.store, self.changed = {}, threading.Condition()
        self.on_line = None                          # called with (rank, line); for tests

    def run(self, timeout=600):
        """Returns itself when all ranks ended well."""
        self.start()
        if any(self.wait(timeout)):
            raise RuntimeError(f"muster-trainer failed: {self.results}\n{self.log()}")
        return self

    def start(self):
        os.makedirs(self.folder, exist_ok=True)
        for rank in range(self.ranks):
            launch = {
                "job_id": 1, "job_name": self.spec["name"], "attempt": self.attempt, "generation": 1, "term": 1,
                "rank": rank, "world_size": self.ranks, "local_rank": rank, "local_world_size": self.ranks,
                "advertise_address": "127.0.0.1", "gpu": -1, "work_dir": self.folder,
                "checkpoint_root": os.path.join(self.folder, "checkpoints"), "resume": self.resume, "spec": self.spec,
                **self.launch, **self.launch_of[rank],
            }
            path = os.path.join(self.folder, f"launch-{rank}.json")
            with open(path, "w") as file:
                json.dump(launch, file)
            ours, theirs = socket.socketpair()
            log = open(os.path.join(self.folder, f"stderr-{rank}.log"), "ab")
            environment = dict(os.environ, MUSTER_LINK_FD=str(theirs.fileno()), **self.environment)
            self.processes.append(subprocess.Popen([*self.launcher, self.trainer, "--launch", path],
                                                   pass_fds=[theirs.fileno()], stderr=log, env=environment))
            log.close()
            theirs.close()
            self.sockets.append(ours)
            thread = threading.Thread(target=self._serve, args=(rank, ours), daemon=True)
            thread.start()
            self.threads.append(thread)

    def wait(self, timeout=600):
        """The ranks' exit codes; subprocess.TimeoutExpired when there are none by then. No rank outlives it."""
        deadline = time.monotonic() + timeout
        try:
            return [process.wait(max(1, deadline - time.monotonic())) for process in self.processes]
        finally:
            self.kill()
            for thread in self.threads:
                thread.join(10)
            for ours in self.sockets:
                ours.close()

    def log(self, rank=0):
        """What a rank wrote to stderr."""
        with open(os.path.join(self.folder, f"stderr-{rank}.log"), errors="replace") as file:
            return file.read()

    def stop(self, save):
        for rank in range(self.ranks):
            self._send(rank, {"type": "stop", "save": save, "reason": "asked"})

    def kill(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()

    def _send(self, rank, line):
        try:
            self.sockets[rank].sendall((json.dumps(line) + "\n").encode())
        except OSError:
            pass  # the rank is gone; its exit code says so

    @staticmethod
    def _lines(ours):
        try:
            for text in ours.makefile("rb"):
                yield json.loads(text)
        except ConnectionResetError:
            return  # the rank died with lines of ours unread

    def _serve(self, rank, ours):
        for line in self._lines(ours):
            kind = line["type"]
            if kind == "metrics":
                self.metrics[rank].append((time.monotonic(), line["step"], line["values"]))
                self._send(rank, {"type": "ack", "seq": line["seq"]})
            elif kind == "result":
                self.results[rank] = line
            elif kind == "checkpoint" and line["kind"] == "ready":
                self._send(rank, {"type": "publish", "step": line["step"]})
            elif kind == "checkpoint" and line["kind"] == "commit":
                self.committed.append(line)
                self._send(rank, {"type": "committed", "step": line["step"], "error": ""})
            elif kind == "store":
                threading.Thread(target=self._store, args=(rank, line), daemon=True).start()
            if self.on_line:
                self.on_line(rank, line)

    def _store(self, rank, line):
        keys, op, found, value = line["keys"], line["op"], True, b""
        with self.changed:
            if op == "set":
                self.store[keys[0]] = base64.b64decode(line["value"])
                self.changed.notify_all()
            elif op == "add":
                value = str(int(self.store.get(keys[0], b"0")) + int(base64.b64decode(line["value"]))).encode()
                self.store[keys[0]] = value
                self.changed.notify_all()
            elif op in ("get", "wait"):
                found = self.changed.wait_for(lambda: all(key in self.store for key in keys), line["timeout_ms"] / 1000)
                value = self.store.get(keys[0], b"") if op == "get" else b""
            elif op == "check":
                found = all(key in self.store for key in keys)
            elif op == "delete":
                found = self.store.pop(keys[0], None) is not None
            elif op == "count":
                value = str(len(self.store)).encode()
        self._send(rank, {"type": "store_reply", "id": line["id"], "found": found, "timed_out": not found and op in ("get", "wait"),
                          "value": base64.b64encode(value).decode(), "error": ""})
