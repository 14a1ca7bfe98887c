#!/usr/bin/env python3
"""The memory estimate of the real muster-trainer beside what the process really used.

The peak is the most pages that the kernel saw in memory at one time (ru_maxrss), as "memory_peak_bytes" reports it: with the
program, its libraries, the data, what kernels take beside the tensors, and what malloc rounds up and keeps. What tensors
alone take is compared in tests/worker/train/memory/memory_estimate_test.cc; that these cases stay within 15 % is held by
tests/peer/memory_estimate_holds.py. An argument chooses cases by a part of their name.
"""
import os
import sys
import tempfile

ROOT = os.environ.get("MUSTER_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("MUSTER_BIN_DIR", os.path.join(ROOT, "build/release/bin"))

from muster_gang import Gang, resolved_spec  # noqa: E402

MLP = {"mlp": {"hidden": [2048, 2048]}}
RESNET = {"resnet18": {"width": 64, "stem": "small"}}
VIT = {"vit": {"size": "tiny", "patch_size": 4, "layers": 12, "heads": 3, "width": 192, "mlp_width": 768, "dropout": 0.0,
               "attention_dropout": 0.0}}
RESNET50 = {"resnet50": {"width": 32, "stem": "small"}}
MAE = {"mae": {"size": "tiny", "patch_size": 4, "layers": 6, "heads": 3, "width": 192, "mlp_width": 768, "decoder_layers": 4,
               "decoder_heads": 3, "decoder_width": 96, "decoder_mlp_width": 384, "mask_ratio": 0.75}}
GPT2 = {"gpt2": {"layers": 4, "heads": 4, "width": 256, "context": 256, "vocabulary": 256, "dropout": 0.0}}
GPT2_TOKENS = {"gpt2": {**GPT2["gpt2"], "vocabulary": 50257}}
ADAMW = {"name": "adamw", "lr": 1e-3, "weight_decay": 0.01, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
LAMB = {"optimizer": {**ADAMW, "name": "lamb", "eps": 1e-6}}
LARS = {"optimizer": {"name": "lars", "lr": 1e-3, "weight_decay": 0.01, "momentum": 0.9, "trust_coefficient": 0.001}}
LION = {"optimizer": {"name": "lion", "lr": 1e-4, "weight_decay": 0.01, "beta1": 0.9, "beta2": 0.99}}
PICTURES = {"synthetic": {"samples": 2048, "shape": [3, 32, 32], "classes": 10}}
TEXT = {"text": {"path": os.path.join(ROOT, "docs"), "context": 256}}
BF16 = {"precision": "bf16"}
RECOMPUTED = {"memory": {"checkpoint_blocks": True}}
EMA = {"ema": {"decay": 0.99, "every_steps": 1, "warmup": True}}
PRUNE = {"prune": {"sparsity": 0.5, "begin_step": 0, "end_step": 3, "every_steps": 1, "pattern": "*.weight",
                   "scope": "global"}}
GLOO = {"sync_batch_norm": False, "compression": "none", "static_graph": False, "transport": "gloo"}
CASES = {
    "mlp": (MLP, {"batch_size": 512}),
    "mlp, lamb": (MLP, {"batch_size": 512, **LAMB}),
    "mlp, lars": (MLP, {"batch_size": 512, **LARS}),
    "mlp, lion": (MLP, {"batch_size": 512, **LION}),
    "resnet18, batch 16": (RESNET, {"batch_size": 16}),
    "resnet18, batch 64": (RESNET, {"batch_size": 64}),
    "resnet18, checkpoint_blocks": (RESNET, {"batch_size": 64, "memory": {"checkpoint_blocks": True}}),
    "resnet18, accumulate 4": (RESNET, {"batch_size": 64, "accumulate": 4}),
    "resnet18, bf16": (RESNET, {"batch_size": 64, "precision": "bf16"}),
    "resnet18, 2 ranks": (RESNET, {"batch_size": 32, "ranks": 2}),
    "resnet18, 2 ranks over gloo": (RESNET, {"batch_size": 32, "ranks": 2, "parallel": GLOO}),
    "mlp, 2 ranks over gloo in bf16": (MLP, {"batch_size": 512, "ranks": 2, "parallel": {**GLOO, "compression": "bf16"}}),
    "mlp, moving average": (MLP, {"batch_size": 512, **EMA}),
    "mlp, pruned": (MLP, {"batch_size": 512, **PRUNE}),
    "mlp, pruned, moving average": (MLP, {"batch_size": 512, **PRUNE, **EMA}),
    "resnet50 of width 32": (RESNET50, {"batch_size": 16}),
    "resnet50 of width 32, bf16, checkpoint_blocks": (RESNET50, {"batch_size": 16, **BF16, **RECOMPUTED}),
    "vit tiny": (VIT, {"batch_size": 32}),
    "vit tiny, bf16": (VIT, {"batch_size": 32, **BF16}),
    "vit tiny, bf16, checkpoint_blocks": (VIT, {"batch_size": 64, **BF16, **RECOMPUTED}),
    "mae": (MAE, {"batch_size": 64}),
    "mae, batch 16, bf16": (MAE, {"batch_size": 16, **BF16}),
    "mae, bf16": (MAE, {"batch_size": 128, **BF16}),
    "mae, bf16, checkpoint_blocks": (MAE, {"batch_size": 128, **BF16, **RECOMPUTED}),
    "gpt2, 4 layers of 256": (GPT2, {"batch_size": 16, "data": TEXT}),
    "gpt2, bf16": (GPT2, {"batch_size": 16, "data": TEXT, **BF16}),
    "gpt2, bf16, checkpoint_blocks": (GPT2, {"batch_size": 16, "data": TEXT, **BF16, **RECOMPUTED}),
    "gpt2, 50257 tokens": (GPT2_TOKENS, {"batch_size": 16, "data": TEXT}),
    "gpt2, 50257 tokens, accumulate 2": (GPT2_TOKENS, {"batch_size": 32, "accumulate": 2, "data": TEXT}),
}
# One or two of each family: two minutes. All of them take five on a CPU with AVX-512, and over half an hour on one without, where
# PyTorch's kernels for bf16 are some forty times slower than those for fp32.
SHORT = ("mlp", "mlp, lamb", "mlp, 2 ranks over gloo in bf16", "mlp, pruned, moving average", "resnet18, batch 16",
         "resnet50 of width 32", "vit tiny", "mae", "mae, batch 16, bf16", "gpt2, 4 layers of 256",
         "gpt2, 50257 tokens")


def measure(model, train):
    """(estimate, peak) in bytes of rank 0."""
    train = dict(train)
    ranks = train.pop("ranks", 1)
    spec = resolved_spec({"model": model, "data": PICTURES,
                          "steps": 4, "report_every_steps": 1, "optimizer": ADAMW, **train}, ranks=ranks)
    spec["checkpoint"]["every_steps"] = 2
    with tempfile.TemporaryDirectory(prefix="muster-memory-") as folder:
        gang = Gang(os.path.join(BIN, "muster-trainer"), spec, folder, ranks=ranks).run()
    reports = [values for _, _, values in gang.metrics[0] if "memory_peak_bytes" in values]
    return reports[0]["memory_estimate_bytes"], max(values["memory_peak_bytes"] for values in reports)


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    for name, (model, train) in CASES.items():
        if wanted not in name:
            continue
        estimate, peak = measure(model, train)
        print(f"{name:30} estimate {estimate / 1e6:5.0f} MB, peak {peak / 1e6:5.0f} MB, ratio {estimate / peak:.3f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
