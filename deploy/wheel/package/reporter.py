"""Lets a program speak to the Muster that runs it: the protocol of docs/COMMANDS.md, in the standard library alone.

Without a Muster around it (MUSTER_SOCKET is not set) every call checks its arguments and does nothing else.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import socket
import threading
import time
from typing import Any, Dict, Mapping, Optional, SupportsFloat, Tuple

from muster.errors import MusterError

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0
_MAX_LINE = 1 << 20


def _number(value: SupportsFloat) -> Any:
    number = float(value)  # also of NumPy and torch
    if math.isnan(number):
        return "nan"  # JSON has no words for these
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    return number


def _numbers(values: Mapping[str, SupportsFloat]) -> Dict[str, Any]:
    return {name: _number(value) for name, value in values.items()}


class _Connection:
    """A connection to the agent, made when it is needed and again when it is lost. One thread at a time uses it."""

    def __init__(self, path: str, patience: float, stop: threading.Event) -> None:
        self._path = path
        self._patience = patience
        self._stop = stop  # set when the agent asks for a stop
        self._socket: Optional[socket.socket] = None
        self._received = b""

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._received = b""

    def say(self, line: Dict[str, Any], answer: Optional[str], step: Optional[int] = None) -> None:
        text = (json.dumps(line, allow_nan=False) + "\n").encode()
        # A commit takes as long as the disks do; only a lost connection is given up.
        is_commit = answer == "committed"
        deadline = time.monotonic() + self._patience
        pause = _FIRST_PAUSE
        while True:
            began = time.monotonic()
            try:
                self.take_what_is_there()
                assert self._socket is not None
                self._socket.settimeout(None if is_commit else self._patience)
                self._socket.sendall(text)
                if answer is not None:
                    self._await(answer, step)
                return
            except OSError as error:
                self.close()
                now = time.monotonic()
                if is_commit:
                    deadline += now - began  # it begins with the loss
                if now + pause > deadline:
                    raise MusterError("UNAVAILABLE", f"the agent does not answer at {self._path}: {error}") from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def take_what_is_there(self) -> None:
        """Connects if need be. What an earlier line was answered late is of no more use, but for a stop."""
        if self._socket is None:
            self._connect()
        while self._next_line(wait=False) is not None:
            pass

    def _connect(self) -> None:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(self._patience)
            connection.connect(self._path)
        except OSError:
            connection.close()
            raise
        self._socket = connection

    def _await(self, answer: str, step: Optional[int]) -> None:
        while True:
            reply = self._next_line(wait=True)
            assert reply is not None
            if reply.get("type") == "error":
                raise MusterError("INVALID_ARGUMENT", str(reply.get("message", "")))
            if reply.get("type") == answer and (step is None or reply.get("step") == step):
                if reply.get("error"):
                    raise MusterError("FAILED_PRECONDITION", str(reply["error"]))
                return

    def _next_line(self, wait: bool) -> Optional[Dict[str, Any]]:
        assert self._socket is not None
        while True:
            line, newline, rest = self._received.partition(b"\n")
            if newline:
                self._received = rest
                return self._decode(line)
            if len(self._received) > _MAX_LINE:
                raise ConnectionError("the agent sent a line that is too long")
            if not wait and not self._readable():
                return None
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionError("the agent closed the connection")
            self._received += data

    def _readable(self) -> bool:
        assert self._socket is not None
        poll = select.poll()  # select.select takes no descriptor above 1023
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    def _decode(self, line: bytes) -> Dict[str, Any]:
        try:
            reply = json.loads(line)
        except ValueError:
            reply = None
        if not isinstance(reply, dict):
            raise ConnectionError("the agent sent a line that is no JSON object")
        if reply.get("type") == "stop":
            self._stop.set()
        return reply


class Reporter:
    """Speaks to the agent over one connection. Each checkpoint has its own, so that no other call waits for its commit.

    Any thread may call it; a process that was forked gets connections of its own. A lost connection is made anew, and
    what was not answered is said again, until `patience` seconds have passed: then the call raises MusterError with the
    code UNAVAILABLE. The wait for a commit does not count.
    """

    def __init__(self, path: Optional[str] = None, *, patience: float = 60.0) -> None:
        self._path = os.environ.get("MUSTER_SOCKET", "") if path is None else path
        self._patience = patience
        self._lock = threading.Lock()  # of _connection
        self._pid = os.getpid()
        self._stop = threading.Event()
        self._connection = self._new_connection()

    @property
    def active(self) -> bool:
        """Whether a Muster runs this program."""
        return bool(self._path)

    def report(self, values: Optional[Mapping[str, SupportsFloat]] = None, *, step: int, **more: SupportsFloat) -> None:
        """Numbers of one step, such as report(step=10, loss=0.5); returns once the worker has them on its disk.

        Names that Python does not take as keywords go into `values`.
        """
        numbers = _numbers({**(values or {}), **more})
        if not numbers:
            raise ValueError("report: no numbers were given")
        self._say({"type": "metrics", "step": int(step), "values": numbers}, "ack")

    def progress(self, phase: str, *, step: int = 0, total_steps: int = 0, epoch: float = 0.0) -> None:
        """What the program does now, for `muster watch`; returns at once."""
        self._say({"type": "progress", "phase": phase, "step": int(step), "total_steps": int(total_steps),
                   "epoch": _number(epoch)}, None)

    def checkpoint(self, path: "str | os.PathLike[str]", *, step: int, best: bool = False, **metrics: SupportsFloat) -> None:
        """Rank 0 alone: hands over a file, or a folder of files; returns once the checkpoint is committed.

        It must lie where docs/COMMANDS.md says, as below MUSTER_CHECKPOINT_DIR, and stay as it is until this returns.
        """
        line = {"type": "checkpoint", "kind": "offer", "step": int(step), "path": os.path.abspath(path),
                "best": bool(best), "metrics": _numbers(metrics)}
        if self._path:
            with contextlib.closing(self._new_connection()) as connection:
                connection.say(line, "committed", int(step))

    def result(self, **results: SupportsFloat) -> None:
        """What came out, for `muster show`."""
        self._say({"type": "result", "succeeded": True, "results": _numbers(results)}, None)

    def failed(self, failure_class: str, message: str) -> None:
        """Why the program will end with an exit code other than 0: a failure class such as DATA_ERROR, and words."""
        self._say({"type": "result", "succeeded": False, "failure_class": failure_class, "message": message}, None)

    def stop_requested(self) -> bool:
        """Whether Muster has asked this rank to save and leave. SIGTERM comes as well; looks without waiting."""
        with self._lock:
            self._after_fork()
            if self._path and not self._stop.is_set():
                try:
                    self._connection.take_what_is_there()
                except OSError:
                    self._connection.close()  # the next call connects
            return self._stop.is_set()

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _new_connection(self) -> _Connection:
        return _Connection(self._path, self._patience, self._stop)

    def _after_fork(self) -> None:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._connection.close()  # the parent's connection stays the parent's

    def _say(self, line: Dict[str, Any], answer: Optional[str]) -> None:
        if self._path:
            with self._lock:
                self._after_fork()
                self._connection.say(line, answer)


_default: Optional[Reporter] = None
_default_lock = threading.Lock()


def _reporter() -> Reporter:
    global _default
    with _default_lock:
        if _default is None:
            _default = Reporter()
        return _default


def report(values: Optional[Mapping[str, SupportsFloat]] = None, *, step: int, **more: SupportsFloat) -> None:
    """Reporter.report of this process' own reporter."""
    _reporter().report(values, step=step, **more)


def progress(phase: str, *, step: int = 0, total_steps: int = 0, epoch: float = 0.0) -> None:
    """Reporter.progress of this process' own reporter."""
    _reporter().progress(phase, step=step, total_steps=total_steps, epoch=epoch)


def checkpoint(path: "str | os.PathLike[str]", *, step: int, best: bool = False, **metrics: SupportsFloat) -> None:
    """Reporter.checkpoint of this process' own reporter."""
    _reporter().checkpoint(path, step=step, best=best, **metrics)


def result(**results: SupportsFloat) -> None:
    """Reporter.result of this process' own reporter."""
    _reporter().result(**results)


def stop_requested() -> bool:
    """Reporter.stop_requested of this process' own reporter."""
    return _reporter().stop_requested()


def resume_from() -> Optional[Tuple[str, int]]:
    """The folder of the checkpoint to go on from and its step; None: begin from nothing."""
    folder = os.environ.get("MUSTER_RESUME")
    return (folder, int(os.environ.get("MUSTER_RESUME_STEP") or 0)) if folder else None
