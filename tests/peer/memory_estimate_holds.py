#!/usr/bin/env python3
"""The memory estimate of the real muster-trainer, made before its first step, is within 15 % of what the process then held.

The peak is the kernel's (ru_maxrss, as "memory_peak_bytes" reports it): program, libraries, data, weights, gradients,
optimizer, the copy that is saved from, activations, and what kernels and malloc take beside them. MUSTER_MEMORY=whole takes all
cases of benchmarks/memory_estimate.py instead of the short list.
"""
import os
import sys
import unittest

ROOT = os.environ.get("MUSTER_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

import memory_estimate  # noqa: E402

BOUND = 0.15


class MemoryEstimateHolds(unittest.TestCase):
    def test_of_every_model(self):
        names = memory_estimate.CASES if os.environ.get("MUSTER_MEMORY") == "whole" else memory_estimate.SHORT
        for name in names:
            model, train = memory_estimate.CASES[name]
            with self.subTest(name):
                estimate, peak = memory_estimate.measure(model, train)
                print(f"{name}: estimate {estimate / 1e6:.0f} MB, peak {peak / 1e6:.0f} MB, ratio {estimate / peak:.3f}",
                      flush=True)
                self.assertGreater(estimate / peak, 1 - BOUND)
                self.assertLess(estimate / peak, 1 + BOUND)


if __name__ == "__main__":
    unittest.main(verbosity=2)
