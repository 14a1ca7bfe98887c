#!/usr/bin/env python3
"""Batch norm over a gang (train.parallel.sync_batch_norm) against PyTorch, with equal and unequal shares of the ranks.

Two references. torch.nn.BatchNorm over the whole batch in one process: what synchronised batch norm is by definition. And
PyTorch's own SyncBatchNorm (torch/nn/modules/_functions.py: what each rank sends, gathers and sums) over as many Python
processes with Gloo; its five kernels exist for GPUs alone, so their formulas stand here in float64 NumPy (Welford's merge
of the ranks' statistics as in aten/src/ATen/native/cuda/Normalization.cuh).
"""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.environ.get("MUSTER_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ.get("MUSTER_BIN_DIR", os.path.join(ROOT, "build/release/bin"))
PROGRAM = os.environ.get("MUSTER_GANG_BATCH_NORM", os.path.join(os.path.dirname(BIN), "tests/gang_batch_norm"))

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from safetensors.numpy import load_file, save_file  # noqa: E402
from torch.nn.modules._functions import SyncBatchNorm  # noqa: E402

EPS, MOMENTUM = 1e-5, 0.1
# (samples, channels, ...), the samples of each rank, the mean of the inputs.
CASES = [
    ((16, 6, 5, 4), (8, 8), 0.0),
    ((11, 6, 5, 4), (7, 4), 0.0),
    ((9, 3), (8, 1), 0.5),         # one rank has a single value of each channel
    ((13, 5, 3, 3), (6, 4, 3), 0.0),
    ((10, 4, 6, 6), (3, 7), 30.0),  # the variance must not drown in the square of the mean
]
# fp32 on both sides; relative to the largest number of a tensor, and more where the inputs' mean eats digits.
BOUND, BOUND_FAR = 2e-6, 1e-5


def inputs(case):
    shape, shares, mean = case
    random = np.random.default_rng(5)
    channels = shape[1]
    return {
        "x": (random.normal(size=shape) * 0.7 + mean).astype(np.float32), "dy": random.normal(size=shape).astype(np.float32),
        "weight": random.normal(size=channels).astype(np.float32), "bias": random.normal(size=channels).astype(np.float32),
        "shares": np.array(shares, dtype=np.int64),
    }


def muster(given, folder):
    source, result = os.path.join(folder, "in.safetensors"), os.path.join(folder, "out.safetensors")
    save_file(given, source)
    subprocess.run([PROGRAM, source, result], check=True, timeout=120)
    return load_file(result)


def over_the_whole_batch(given):
    """torch.nn.BatchNorm in one process."""
    x, dy = torch.from_numpy(given["x"]).requires_grad_(), torch.from_numpy(given["dy"])
    kind = torch.nn.BatchNorm1d if x.dim() == 2 else torch.nn.BatchNorm2d
    layer = kind(x.shape[1], eps=EPS, momentum=MOMENTUM)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(given["weight"]))
        layer.bias.copy_(torch.from_numpy(given["bias"]))
    y = layer(x)
    y.backward(dy)
    return {"y": y.detach().numpy(), "dx": x.grad.numpy(), "dweight": layer.weight.grad.numpy(),
            "dbias": layer.bias.grad.numpy(), "running_mean": layer.running_mean.numpy(),
            "running_var": layer.running_var.numpy()}


def f64(tensor):
    return tensor.detach().numpy().astype(np.float64)


def f32(values):
    return torch.from_numpy(np.ascontiguousarray(values).astype(np.float32))


def over(values, like):
    """[C] beside [B, C, ...]."""
    return values.reshape([1, -1] + [1] * (like.ndim - 2))


def reduced(values):
    return values.sum(axis=(0, *range(2, values.ndim)))


def stats(x, eps):
    x = f64(x)
    mean = reduced(x) / (x.size / x.shape[1])
    variance = reduced((x - over(mean, x)) ** 2) / (x.size / x.shape[1])
    return f32(mean), f32(1 / np.sqrt(variance + eps))


def gather_stats(x, means, inverses, running_mean, running_var, momentum, eps, counts):
    mean, squares, seen = 0.0, 0.0, 0.0
    for of_rank, inverse, count in zip(f64(means), f64(inverses), f64(counts)):
        variance = (1 / inverse) ** 2 - eps
        squares = squares + variance * count + (mean - of_rank) ** 2 * seen * count / (seen + count)
        mean = (seen * mean + count * of_rank) / (seen + count)
        seen += count
    running_mean.copy_(f32((1 - momentum) * f64(running_mean) + momentum * mean))
    running_var.copy_(f32((1 - momentum) * f64(running_var) + momentum * squares / (seen - 1)))
    return f32(mean), f32(1 / np.sqrt(squares / seen + eps))


def normalise(x, weight, bias, mean, inverse, eps):
    scaled = (f64(x) - over(f64(mean), x)) * over(f64(inverse), x)
    return f32(scaled * over(f64(weight), x) + over(f64(bias), x))


def backward_reduce(dy, x, mean, inverse, weight, *_wanted):
    sum_dy = reduced(f64(dy))
    sum_dy_centered = reduced(f64(dy) * (f64(x) - over(f64(mean), x)))
    return f32(sum_dy), f32(sum_dy_centered), f32(sum_dy_centered * f64(inverse)), f32(sum_dy)


def backward_elements(dy, x, mean, inverse, weight, sum_dy, sum_dy_centered, counts):
    total = f64(counts).sum()
    slope = f64(sum_dy_centered) / total * f64(inverse) ** 2
    centered = f64(x) - over(f64(mean), x)
    dx = f64(dy) - over(f64(sum_dy) / total, x) - centered * over(slope, x)
    return f32(dx * over(f64(inverse) * f64(weight), x))


def python_rank(folder, rank, world):
    """One rank of PyTorch's SyncBatchNorm: a process of its own."""
    library = torch.library.Library("aten", "IMPL")
    for name, kernel in (("batch_norm_stats", stats), ("batch_norm_gather_stats_with_counts", gather_stats),
                         ("batch_norm_elemt", normalise), ("batch_norm_backward_reduce", backward_reduce),
                         ("batch_norm_backward_elemt", backward_elements)):
        library.impl(name, kernel, "CPU")
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world)
    given = load_file(os.path.join(folder, "in.safetensors"))
    first, count = int(given["shares"][:rank].sum()), int(given["shares"][rank])
    x = torch.from_numpy(given["x"][first:first + count].copy()).requires_grad_()
    weight, bias = (torch.from_numpy(given[name]).requires_grad_() for name in ("weight", "bias"))
    running_mean, running_var = torch.zeros(x.shape[1]), torch.ones(x.shape[1])
    y = SyncBatchNorm.apply(x, weight, bias, running_mean, running_var, EPS, MOMENTUM, dist.group.WORLD, world)
    y.backward(torch.from_numpy(given["dy"][first:first + count].copy()))
    save_file({"y": y.detach().numpy(), "dx": x.grad.numpy(), "dweight": weight.grad.numpy(), "dbias": bias.grad.numpy(),
               "running_mean": running_mean.numpy(), "running_var": running_var.numpy()},
              os.path.join(folder, f"python-{rank}.safetensors"))
    dist.destroy_process_group()


def over_python_ranks(given, folder):
    world = len(given["shares"])
    ranks = [subprocess.Popen([sys.executable, __file__, "--rank", folder, str(rank), str(world)]) for rank in range(world)]
    codes = [rank.wait(120) for rank in ranks]
    if any(codes):
        raise RuntimeError(f"PyTorch's ranks ended with {codes}")
    parts = [load_file(os.path.join(folder, f"python-{rank}.safetensors")) for rank in range(world)]
    return {name: (np.concatenate if name in ("y", "dx") else np.stack)([part[name] for part in parts]) for name in parts[0]}


class SyncBatchNormAgainstPyTorch(unittest.TestCase):
    def test_outputs_gradients_and_running_statistics(self):
        for case in CASES:
            shape, shares, mean = case
            given = inputs(case)
            bound = BOUND_FAR if mean > 1 else BOUND
            with self.subTest(shape=shape, shares=shares), tempfile.TemporaryDirectory(prefix="muster-peer-") as folder:
                ours = muster(given, folder)
                whole, ranks = over_the_whole_batch(given), over_python_ranks(given, folder)
                worst = {}
                for name, value in ours.items():
                    # Of the weights: the sum over the ranks is that of the whole batch.
                    joined = {"dweight": value.sum(0), "dbias": value.sum(0), "running_mean": value[0],
                              "running_var": value[0]}.get(name, value)
                    if name.startswith("running"):
                        self.assertTrue((value == value[0]).all(), "ranks must not drift apart")
                    for kind, mine, other in (("whole", joined, whole[name]), ("ranks", value, ranks[name])):
                        difference = np.abs(mine - other).max() / np.abs(other).max()
                        worst[kind] = max(worst.get(kind, 0), difference)
                        self.assertLess(difference, bound, f"{name} against {kind}")
                print(f"{shape} as {shares}: within {worst['whole']:.1e} of BatchNorm over the whole batch, "
                      f"{worst['ranks']:.1e} of SyncBatchNorm over {len(shares)} ranks")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        python_rank(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        unittest.main(verbosity=2)
