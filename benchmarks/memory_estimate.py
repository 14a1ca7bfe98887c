#!/usr/bin/env python3
"""The memory estimate of the real muster-trainer beside what the process really used.

The peak is the most pages that the kernel saw in memory at one time (ru_maxrss), as "memory_peak_bytes" reports it: with the
program, its libraries, the data, and the holes that malloc keeps between tensors, which the estimate does not know.
What tensors alone take is compared in tests/worker/train/memory_estimate_test.cc.
"""
import os
import sys
import tempfile

ROOT = os.environ.get("MUSTER_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("MUSTER_BIN_DIR", os.path.join(ROOT, "build/release/bin"))

from muster_gang import Gang, resolved_spec  # noqa: E402

MLP = {"mlp": {"hidden": [2048, 2048]}}
RESNET = {"resnet18": {"width": 64, "stem": "small"}}
ADAMW = {"name": "adamw", "lr": 1e-3, "weight_decay": 0.01, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
CASES = {
    "mlp": (MLP, {"batch_size": 512}),
    "resnet18": (RESNET, {"batch_size": 64}),
    "resnet18, checkpoint_blocks": (RESNET, {"batch_size": 64, "memory": {"checkpoint_blocks": True}}),
    "resnet18, accumulate 4": (RESNET, {"batch_size": 64, "accumulate": 4}),
}


def measure(model, train):
    """(estimate, peak) in bytes of one rank."""
    spec = resolved_spec({"model": model, "data": {"synthetic": {"samples": 2048, "shape": [3, 32, 32], "classes": 10}},
                          "steps": 4, "report_every_steps": 1, "optimizer": ADAMW, **train}, ranks=1)
    spec["checkpoint"]["every_steps"] = 2
    with tempfile.TemporaryDirectory(prefix="muster-memory-") as folder:
        gang = Gang(os.path.join(BIN, "muster-trainer"), spec, folder, ranks=1)
        gang.start()
        try:
            codes = gang.wait(600)
        finally:
            gang.kill()
    if codes != [0]:
        raise RuntimeError(f"muster-trainer failed: {gang.results}")
    values = {name: value for _, _, values in gang.metrics[0] for name, value in values.items()}
    return values["memory_estimate_bytes"], values["memory_peak_bytes"]


def main():
    for name, (model, train) in CASES.items():
        estimate, peak = measure(model, train)
        print(f"{name:30} estimate {estimate / 1e6:5.0f} MB, peak {peak / 1e6:5.0f} MB, ratio {estimate / peak:.3f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
