"""Fits a line by gradient descent, and tells Muster how it goes: metrics, a checkpoint every ten steps, the result.

    muster submit --name line -- python examples/report_line.py

It needs the wheel in that Python (docs/PYTHON.md), and runs without Muster as well. Started again it goes on from its newest
checkpoint.
"""

import json
import os
import sys

import muster

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 40
POINTS = [(x / 10, 3 * x / 10 + 1) for x in range(-10, 11)]

slope, offset, first = 0.0, 0.0, 1
resumed = muster.resume_from()
if resumed is not None:
    folder, step = resumed
    with open(os.path.join(folder, "line.json"), encoding="utf-8") as file:
        slope, offset = json.load(file)
    first = step + 1


def save(step: int, loss: float) -> None:
    path = os.path.join(os.environ.get("MUSTER_CHECKPOINT_DIR", "."), "line.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump([slope, offset], file)
    muster.checkpoint(path, step=step, loss=loss)


loss = 0.0
for step in range(first, STEPS + 1):
    errors = [(slope * x + offset - y, x) for x, y in POINTS]
    loss = sum(error * error for error, _ in errors) / len(errors)
    slope -= 0.5 * sum(2 * error * x for error, x in errors) / len(errors)
    offset -= 0.5 * sum(2 * error for error, _ in errors) / len(errors)
    muster.report(step=step, loss=loss, slope=slope)
    print(f"step {step} loss {loss!r}", flush=True)
    if muster.stop_requested() or step % 10 == 0:
        save(step, loss)
        if muster.stop_requested():
            sys.exit(0)
muster.result(loss=loss)
