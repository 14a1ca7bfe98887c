"""Muster from Python: a client of a controller, a reporter for programs that run under Muster, and the programs themselves.

    client = muster.Client()                       # finds the controller as the command line does
    job = client.submit({"name": "train", "command": ["python", "train.py"]})
    client.wait(job)
    client.metrics(job).columns["loss"]

    muster.report(step=10, loss=0.5)               # in train.py; does nothing where no Muster runs it

docs/PYTHON.md is the manual. `import muster` itself loads neither gRPC nor Protocol Buffers: the client does, at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.errors import MusterError
from muster.reporter import Reporter, checkpoint, progress, report, result, resume_from, stop_requested

if TYPE_CHECKING:
    from muster.client import Client
    from muster.metric_table import MetricTable

__all__ = ["Client", "MetricTable", "MusterError", "Reporter", "checkpoint", "progress", "report", "result", "resume_from",
           "stop_requested"]


def __getattr__(name: str) -> Any:
    if name == "Client":
        from muster.client import Client
        return Client
    if name == "MetricTable":
        from muster.metric_table import MetricTable
        return MetricTable
    raise AttributeError(f"module 'muster' has no attribute {name!r}")
