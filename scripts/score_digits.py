#!/usr/bin/env python3
"""Scores a Muster checkpoint on the handwritten digits with plain PyTorch.

Shares no code with Muster: reads model.safetensors into a torch.nn module of the same names, reads
digits.csv itself, and prints one line of JSON:
  {"test_accuracy": 0.9752, "correct": 354, "total": 363, "validation_accuracy": ..., ...}
Needs torch and safetensors (scripts/setup makes a virtual environment that has both).
"""

import argparse
import contextlib
import json
import pathlib
import sys

import safetensors.torch
import torch
from torch import nn

MASK = (1 << 64) - 1
SPLITS = ("train", "validation", "test")


def split_mix_64(x):
    """Steele, Lea, Flood 2014."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def split_of_row(row):
    place = split_mix_64(row) % 10
    return "train" if place < 7 else "validation" if place == 7 else "test"


def read_digits(folder, image_size):
    """{split: (inputs [n, 1, S, S], targets [n])}"""
    rows = {split: [] for split in SPLITS}
    with open(pathlib.Path(folder) / "digits.csv", encoding="ascii") as file:
        for index, line in enumerate(file):
            rows[split_of_row(index)].append([int(field) for field in line.split(",")])
    sets = {}
    repeat = image_size // 8
    for split, values in rows.items():
        table = torch.tensor(values)
        pixels = table[:, :64].reshape(-1, 1, 8, 8).float()
        inputs = (pixels / 16 - 0.5) / 0.5
        inputs = inputs.repeat_interleave(repeat, dim=2).repeat_interleave(repeat, dim=3)
        sets[split] = (inputs, table[:, 64])
    return sets


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                            nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    """He et al. 2016, with torchvision's names."""

    def __init__(self, width, imagenet_stem, channels, classes):
        super().__init__()
        if imagenet_stem:
            self.conv1 = nn.Conv2d(channels, width, 7, 2, 3, bias=False)
            self.maxpool = nn.MaxPool2d(3, 2, 1)
        else:
            self.conv1 = nn.Conv2d(channels, width, 3, 1, 1, bias=False)
            self.maxpool = nn.Identity()
        self.bn1 = nn.BatchNorm2d(width)
        inputs = width
        for stage in range(4):
            outputs = width << stage
            stride = 1 if stage == 0 else 2
            setattr(self, f"layer{stage + 1}",
                    nn.Sequential(Block(inputs, outputs, stride), Block(outputs, outputs, 1)))
            inputs = outputs
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def make_mlp(hidden, features, classes):
    layers = []
    for width in hidden:
        layers += [nn.Linear(features, width), nn.ReLU()]
        features = width
    return nn.Sequential(*layers, nn.Linear(features, classes))


def make_model(spec, image_size):
    model = spec["train"]["model"]
    if "resnet18" in model:
        config = model["resnet18"]
        return ResNet18(config.get("width", 64), config.get("stem", "small") == "imagenet", 1, 10)
    if "mlp" in model:
        hidden = model["mlp"].get("hidden", [256, 256])
        return nn.Sequential(nn.Flatten(), make_mlp(hidden, image_size * image_size, 10))
    sys.exit(f"score_digits: no model of the kind {', '.join(model)} here")


def load_model(checkpoint, spec, image_size):
    model = make_model(spec, image_size)
    weights = safetensors.torch.load_file(checkpoint / "model.safetensors")
    bare = model[1] if isinstance(model, nn.Sequential) else model
    bare.load_state_dict(weights, strict=True)
    return model.eval()


def count_correct(model, inputs, targets, batch_size):
    correct = 0
    for i in range(0, len(targets), batch_size):
        logits = model(inputs[i:i + batch_size])
        correct += int((logits.argmax(1) == targets[i:i + batch_size]).sum())
    return correct


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", metavar="CHECKPOINT_DIR", type=pathlib.Path,
                        help="a checkpoint folder: model.safetensors and state.json")
    parser.add_argument("digits", metavar="DIGITS_DIR", type=pathlib.Path,
                        help="the folder that holds digits.csv")
    parser.add_argument("--batch-size", type=int, default=256, help="samples at once (default 256)")
    args = parser.parse_args()
    try:
        spec = json.loads((args.checkpoint / "state.json").read_text())["spec"]
        image_size = int(spec["train"]["data"]["digits"].get("image_size", 16))
        sets = read_digits(args.digits, image_size)
        model = load_model(args.checkpoint, spec, image_size)
    except (OSError, KeyError, ValueError, RuntimeError) as error:
        sys.exit(f"score_digits: {type(error).__name__}: {error}")

    torch.set_num_threads(int(spec["train"].get("threads_per_rank", 1)))
    bf16 = spec["train"].get("precision", "fp32") == "bf16"
    autocast = torch.autocast("cpu", torch.bfloat16) if bf16 else contextlib.nullcontext()
    counts = {}
    with torch.no_grad(), autocast:
        for split in ("validation", "test"):
            counts[split] = count_correct(model, *sets[split], args.batch_size), len(sets[split][1])
    (valid, valid_total), (correct, total) = counts["validation"], counts["test"]
    print(json.dumps({
        "test_accuracy": correct / total, "correct": correct, "total": total,
        "validation_accuracy": valid / valid_total, "validation_correct": valid,
        "validation_total": valid_total,
    }))


if __name__ == "__main__":
    main()
