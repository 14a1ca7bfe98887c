#!/usr/bin/env python3
"""Muster's autocast against Python's: each operator must compute in the same type, on the CPU, for bf16 and fp16."""
import os
import subprocess
import unittest

import torch
import torch.nn.functional as F

PROGRAM = os.environ["MUSTER_AUTOCAST_DTYPES"]
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def operators(dtype):
    """The same operators on the same shapes as in autocast_dtypes.cc."""
    ones = torch.ones
    x, weight, four = ones(2, 4, dtype=dtype), ones(4, 4), ones(4)
    picture, kernel = ones(2, 4, 6, 6, dtype=dtype), ones(4, 4, 3, 3)
    sequence, kernel1 = ones(2, 4, 6, dtype=dtype), ones(4, 4, 3)
    heads, batch = ones(2, 2, 3, 4, dtype=dtype), ones(2, 4, 4, dtype=dtype)
    other, classes = ones(2, 4), torch.zeros(2, dtype=torch.long)
    return {
        "linear": lambda: F.linear(x, weight, four),
        "matmul": lambda: torch.matmul(x, weight),
        "addmm": lambda: torch.addmm(four, x, weight),
        "bmm": lambda: torch.bmm(batch, ones(2, 4, 4)),
        "baddbmm": lambda: torch.baddbmm(ones(2, 4, 4), batch, ones(2, 4, 4)),
        "conv1d": lambda: F.conv1d(sequence, kernel1),
        "conv2d": lambda: F.conv2d(picture, kernel),
        "conv_transpose2d": lambda: F.conv_transpose2d(picture, kernel),
        "sdpa": lambda: F.scaled_dot_product_attention(heads, heads, heads),
        "layer_norm": lambda: F.layer_norm(x, (4,), four, four),
        "group_norm": lambda: F.group_norm(picture, 2, four, four),
        "batch_norm": lambda: F.batch_norm(picture, torch.zeros(4), ones(4), four, four, training=True),
        "softmax": lambda: F.softmax(x, 1),
        "log_softmax": lambda: F.log_softmax(x, 1),
        "cross_entropy": lambda: F.cross_entropy(x, classes),
        "mse_loss": lambda: F.mse_loss(x, other),
        "bce_with_logits": lambda: F.binary_cross_entropy_with_logits(x, other),
        "gelu": lambda: F.gelu(x),
        "relu": lambda: F.relu(x),
        "tanh": lambda: torch.tanh(x),
        "sigmoid": lambda: torch.sigmoid(x),
        "exp": lambda: torch.exp(x),
        "dropout": lambda: F.dropout(x, 0.5, True),
        "add": lambda: x + other,
        "mul": lambda: x * other,
        "sum": lambda: x.sum(),
        "mean": lambda: x.mean(),
        "norm": lambda: torch.linalg.vector_norm(x, 2),
        "cumsum": lambda: x.cumsum(0),
        "cat": lambda: torch.cat([x, other]),
        "stack": lambda: torch.stack([x, other]),
        "max_pool2d": lambda: F.max_pool2d(picture, 2),
        "avg_pool2d": lambda: F.avg_pool2d(picture, 2),
        "adaptive_avg_pool2d": lambda: F.adaptive_avg_pool2d(picture, 1),
        "embedding": lambda: F.embedding(classes, weight),
    }


def type_name(dtype):
    return str(dtype).removeprefix("torch.")


class AutocastAgainstPyTorch(unittest.TestCase):
    def test_every_operator_computes_in_the_same_type(self):
        lines = subprocess.run([PROGRAM], check=True, capture_output=True, text=True).stdout.splitlines()
        ours = {tuple(line.split()[:3]): line.split()[3] for line in lines}
        theirs = {}
        for precision, dtype in (("fp32", torch.float32), ("bf16", torch.float32), ("bf16", torch.bfloat16),
                                 ("fp16", torch.float32), ("fp16", torch.float16)):
            for name, run in operators(dtype).items():
                with torch.autocast("cpu", dtype=TYPES.get(precision, torch.bfloat16), enabled=precision in TYPES):
                    try:
                        kind = type_name(run().dtype)
                    except RuntimeError:
                        kind = "refused"
                theirs[precision, type_name(dtype), name] = kind
        self.assertEqual(ours, theirs)
        # The comparison says something: autocast changes some types and leaves others.
        self.assertEqual(theirs["bf16", "float32", "linear"], "bfloat16")
        self.assertEqual(theirs["fp16", "float32", "conv2d"], "float16")
        self.assertEqual(theirs["fp16", "float16", "cross_entropy"], "float32")
        refused = sum(kind == "refused" for kind in theirs.values())
        print(f"{len(theirs)} cases equal, of which {refused} are refused by both")


if __name__ == "__main__":
    unittest.main()
