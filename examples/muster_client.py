"""Lets a command job speak to Muster; copy it beside your script. Without a Muster around it, every call does nothing."""
import json
import os
import socket


class Muster:
    def __init__(self):
        self.stop_requested = False  # set when Muster has asked this rank to save and leave (SIGTERM comes with it)
        self._file = None
        if os.environ.get("MUSTER_SOCKET"):
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(os.environ["MUSTER_SOCKET"])
            self._file = connection.makefile("rw", encoding="utf-8")

    def metrics(self, step, **values):
        """Numbers of one step; returns once the worker has them on disk."""
        self._call("ack", type="metrics", step=step, values=values)

    def progress(self, phase, step=0, total_steps=0, epoch=0.0):
        self._call(None, type="progress", phase=phase, step=step, total_steps=total_steps, epoch=epoch)

    def checkpoint(self, path, step, best=False, **metrics):
        """Rank 0 only: hands a file, or a folder of files, over; returns once the checkpoint is committed."""
        self._call("committed", type="checkpoint", kind="offer", path=os.path.abspath(path), step=step, best=best,
                   metrics=metrics)

    def result(self, **results):
        self._call(None, type="result", succeeded=True, results=results)

    def _call(self, answer, **line):
        if self._file is None:
            return
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        while answer is not None:
            reply = json.loads(self._file.readline())
            self.stop_requested |= reply["type"] == "stop"
            if reply["type"] == "error" or reply.get("error"):
                raise RuntimeError(reply.get("message") or reply["error"])
            if reply["type"] == answer:
                return
