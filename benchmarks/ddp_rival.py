"""PyTorch, on several ranks with DistributedDataParallel on Gloo: the rival of benchmarks/train/run. Started by it, once per
rank, with a JSON task. `setting` is how it is run: default, fused (optimizer), compiled (torch.compile and fused),
channels_last (fused, and with that memory format).

Trains the same model on the same batches as Muster (benchmarks/muster_data.py). Rank 0 prints lines of JSON: every
`report_every` steps how many are done, for ever; or, for a check, once the losses from Muster's own checkpoint on.
"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

import muster_data


class Block(nn.Module):
    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        if stride != 1 or channels_in != channels:
            self.downsample = nn.Sequential(nn.Conv2d(channels_in, channels, 1, stride, bias=False),
                                            nn.BatchNorm2d(channels))
        else:
            self.downsample = nn.Identity()

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(y)) + self.downsample(x), inplace=True)


class ResNet18(nn.Module):
    """torchvision's resnet18 and its names, with the stem for small pictures."""

    def __init__(self, channels, width, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        before = width
        for stage in range(4):
            out = width << stage
            blocks = nn.Sequential(Block(before, out, 2 if stage else 1), Block(out, out, 1))
            setattr(self, f"layer{stage + 1}", blocks)
            before = out
        self.fc = nn.Linear(before, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        for stage in range(4):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


def build(task):
    shape, classes = task["shape"], task["classes"]
    if task["model"] == "resnet18":
        return ResNet18(shape[0], task["width"], classes)
    layers, features = [], shape[0]
    for width in task["hidden"]:
        layers += [nn.Linear(features, width), nn.ReLU()]
        features = width
    return nn.Sequential(*layers, nn.Linear(features, classes))


def load_checkpoint(folder, model, optimizer):
    """Weights, buffers and AdamW's moments of a Muster checkpoint."""
    from safetensors.torch import load_file
    model.load_state_dict(load_file(os.path.join(folder, "model.safetensors")))
    saved = load_file(os.path.join(folder, "optimizer.safetensors"))
    for name, parameter in model.named_parameters():
        optimizer.state[parameter] = {"step": saved["step"].clone(), "exp_avg": saved["exp_avg." + name].clone(),
                                      "exp_avg_sq": saved["exp_avg_sq." + name].clone()}


def main():
    task = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    torch.manual_seed(task["seed"])
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        dist.init_process_group("gloo")
    model, setting = build(task), task["setting"]
    if setting == "channels_last":
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01,
                                  **({} if setting == "default" else {"fused": True}))
    first = 0
    if task.get("checkpoint"):
        load_checkpoint(task["checkpoint"], model, optimizer)
        first = task["first_step"]
    network = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True) if world > 1 else model
    if setting == "compiled":
        network = torch.compile(network)

    inputs, targets = muster_data.synthetic_train(task["samples"], task["shape"], task["classes"], task["seed"])
    inputs, targets = torch.from_numpy(inputs), torch.from_numpy(targets)
    # Gathered before the clock runs: Muster's own gathering is inside its figure.
    distinct = task["samples"] // task["batch_size"]
    batches = []
    for step in range(first, first + distinct):
        ids = torch.tensor(muster_data.sample_ids(task["samples"], task["batch_size"], task["seed"], step, rank, world))
        x = inputs[ids]
        batches.append((x.to(memory_format=torch.channels_last) if setting == "channels_last" else x, targets[ids]))

    def train(step):
        x, y = batches[step % distinct]  # one epoch's, again and again
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(network(x), y)
        loss.backward()
        optimizer.step()
        return loss

    if task.get("checkpoint"):
        losses = []
        for step in range(task["steps"]):
            loss = train(step).detach().clone()
            if world > 1:
                dist.all_reduce(loss)
            losses.append(loss.item() / world)
        if rank == 0:
            print(json.dumps({"losses": losses}), flush=True)
        if world > 1:
            dist.destroy_process_group()
        return
    step = 0
    while True:  # until benchmarks/train/run ends it
        train(step)
        step += 1
        if rank == 0 and step % task["report_every"] == 0:
            print(json.dumps({"step": step}), flush=True)


if __name__ == "__main__":
    main()
