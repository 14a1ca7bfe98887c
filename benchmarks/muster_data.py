"""Muster's synthetic data and sample order in numpy, so that PyTorch can train on the very same batches.

Written from the description in common/base/rng.h, worker/data/images/synthetic.cc and worker/data/sampler.h; shares no code with
them. Used by benchmarks/train/run and tests/peer.
"""
import os

import numpy as np

U64 = np.uint64
PURPOSE_ORDER = 0x6F72646572        # the sampler's and the data's own purposes
PURPOSE_INPUT = 0x696E707574
PURPOSE_TARGET = 0x746172676574
SEED_DATA_ORDER, SEED_SYNTHETIC, SEED_STEP, SEED_SAMPLES = 2, 3, 4, 6  # worker/train/step/seeding.h


def splitmix64(x):
    with np.errstate(over="ignore"):
        x = np.asarray(x, U64) + U64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> U64(30))) * U64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> U64(27))) * U64(0x94D049BB133111EB)
        return x ^ (x >> U64(31))


def derive_seed(seed, purpose, position=0):
    return splitmix64(splitmix64(splitmix64(seed) ^ U64(purpose)) ^ np.asarray(position, U64))


def step_seed(seed, step, rank):
    """Where torch's generators stand when a rank begins a step (worker/train/step/seeding.h)."""
    return int(derive_seed(derive_seed(seed, SEED_STEP), step, rank))


def mae_noise(seed, ids, patches):
    """[samples, patches] float64 by which a masked autoencoder hides patches of these samples (worker/models/mae.h). `seed`
    is mae_step_seed's in training."""
    streams = derive_seed(seed, np.asarray(ids, U64))[:, None]
    bits = splitmix64(streams ^ splitmix64(np.arange(patches, dtype=U64))[None, :])
    return (bits >> U64(11)).astype(np.float64) * 2.0 ** -53


def mae_step_seed(seed, step):
    return derive_seed(derive_seed(seed, SEED_SAMPLES), step)


def synthetic_train(samples, shape, classes, seed):
    """Inputs [samples, *shape] float32 and targets [samples] int64 of the training split."""
    seed = derive_seed(seed, SEED_SYNTHETIC)
    elements = samples * int(np.prod(shape))
    base = derive_seed(seed, PURPOSE_INPUT, 0)
    with np.errstate(over="ignore"):
        bits = splitmix64(base + np.arange(0, elements, 2, dtype=U64))
    halves = np.empty(2 * len(bits), np.uint32)
    halves[0::2] = (bits & U64(0xFFFFFFFF)).astype(np.uint32)
    halves[1::2] = (bits >> U64(32)).astype(np.uint32)
    scale = np.float32(2) * np.float32(1.7320508) / np.float32(16777216)
    inputs = ((halves[:elements] >> np.uint32(8)).astype(np.float32) - np.float32(8388608)) * scale
    targets = derive_seed(seed, PURPOSE_TARGET, np.arange(samples, dtype=U64)) % U64(classes)
    return inputs.reshape(samples, *shape), targets.astype(np.int64)


def token_rows(folder, context):
    """Inputs and targets, each [rows, context] int64, of the training split of a folder of tokens (worker/data/text/tokens.cc)."""
    tokens = np.fromfile(os.path.join(folder, "train.bin"), "<u2").astype(np.int64)
    rows = (len(tokens) - 1) // context
    cut = rows * context
    return tokens[:cut].reshape(rows, context), tokens[1:cut + 1].reshape(rows, context)


def sample_ids(samples, batch_size, seed, step, rank, world):
    """Ids of the samples of one step for one rank."""
    seed = derive_seed(seed, SEED_DATA_ORDER)
    half = (max(2, (samples - 1).bit_length()) + 1) // 2
    mask = U64((1 << half) - 1)

    def permute(epoch, place):
        key = derive_seed(seed, PURPOSE_ORDER, epoch)
        while True:
            left, right = U64(place) >> U64(half), U64(place) & mask
            for turn in range(8):
                left, right = right, left ^ (derive_seed(key, turn, right) & mask)
            place = int(left << U64(half) | right)
            if place < samples:
                return place

    first = step * batch_size
    shard = range(first + batch_size * rank // world, first + batch_size * (rank + 1) // world)
    return [permute(position // samples, position % samples) for position in shard]
