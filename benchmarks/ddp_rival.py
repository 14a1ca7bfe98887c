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
import rival_resnets


class Attention(nn.Module):
    """Multi-head attention with the names of torchvision's encoder; without the wrappers around it, which cost time."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.zeros(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * width))
        self.out_proj = nn.Linear(width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        query, key, value = (part.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
                             for part in F.linear(x, self.in_proj_weight, self.in_proj_bias).chunk(3, -1))
        return self.out_proj(F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.self_attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Identity(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.self_attention(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Vit(nn.Module):
    """A vision transformer with torchvision's names."""

    def __init__(self, shape, patch, layers, heads, width, classes):
        super().__init__()
        patches = (shape[1] // patch) * (shape[2] // patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.conv_proj = nn.Conv2d(shape[0], width, patch, patch)
        self.encoder = nn.Module()
        self.encoder.pos_embedding = nn.Parameter(torch.randn(1, patches + 1, width) * 0.02)
        self.encoder.layers = nn.Module()
        for layer in range(layers):
            setattr(self.encoder.layers, f"encoder_layer_{layer}", EncoderLayer(width, heads))
        self.encoder.ln = nn.LayerNorm(width, eps=1e-6)
        self.heads = nn.Module()
        self.heads.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], 1) + self.encoder.pos_embedding
        for layer in self.encoder.layers.children():
            x = layer(x)
        return self.heads.head(self.encoder.ln(x[:, 0]))


class Conv1D(nn.Module):
    """Hugging Face's layer of GPT-2: a linear layer whose weight is [in, out]."""

    def __init__(self, channels_in, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels_in, channels) * 0.02)
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(*x.shape[:-1], -1)


class Gpt2Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.mlp = nn.Module(), nn.Module()
        self.attn.c_attn, self.attn.c_proj = Conv1D(width, 3 * width), Conv1D(width, width)
        self.mlp.c_fc, self.mlp.c_proj = Conv1D(width, 4 * width), Conv1D(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        query, key, value = (part.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
                             for part in self.attn.c_attn(self.ln_1(x)).split(width, 2))
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attn.c_proj(y.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.mlp.c_proj(F.gelu(self.mlp.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    """GPT-2 with Hugging Face's names; the head shares the tokens' embedding."""

    def __init__(self, layers, heads, width, context, vocabulary):
        super().__init__()
        self.transformer = nn.Module()
        self.transformer.wte = nn.Embedding(vocabulary, width)
        self.transformer.wpe = nn.Embedding(context, width)
        self.transformer.h = nn.ModuleList(Gpt2Block(width, heads) for _ in range(layers))
        self.transformer.ln_f = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.transformer.wte(tokens) + self.transformer.wpe.weight[:tokens.size(1)]
        for block in self.transformer.h:
            x = block(x)
        return F.linear(self.transformer.ln_f(x), self.transformer.wte.weight).flatten(0, 1)


def build(task):
    classes = task["classes"]
    if task["model"] == "gpt2":
        return Gpt2(task["layers"], task["heads"], task["width"], task["context"], classes)
    shape = task["shape"]
    if task["model"] == "vit":
        return Vit(shape, task["patch"], task["layers"], task["heads"], task["width"], classes)
    if task["model"] in rival_resnets.KINDS:
        return rival_resnets.ResNet(task["model"], shape[0], task["width"], classes, task.get("stem", "small"))
    if task["model"] == "mae":
        from rival_mae import Mae
        return Mae(task)
    layers, features = [], shape[0]
    for width in task["hidden"]:
        layers += [nn.Linear(features, width), nn.ReLU()]
        features = width
    return nn.Sequential(*layers, nn.Linear(features, classes))


def learnt(model):
    """By name. Hugging Face's fixed positions are parameters that do not learn."""
    return [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]


def load_checkpoint(folder, model, optimizer):
    """Weights, buffers and AdamW's moments of a Muster checkpoint."""
    from safetensors.torch import load_file
    in_muster = getattr(model, "name_in_muster", lambda name: name)
    state = load_file(os.path.join(folder, "model.safetensors"))
    model.load_state_dict({name: state.pop(in_muster(name)) for name in model.state_dict()})
    if state:
        raise RuntimeError(f"the rival has no place for {sorted(state)}")
    saved = load_file(os.path.join(folder, "optimizer.safetensors"))
    for name, parameter in learnt(model):
        moments = {moment: saved[f"{moment}.{in_muster(name)}"].clone() for moment in ("exp_avg", "exp_avg_sq")}
        optimizer.state[parameter] = {"step": saved["step"].clone(), **moments}


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
    optimizer = torch.optim.AdamW([parameter for _, parameter in learnt(model)], lr=task["lr"], weight_decay=0.01,
                                  **({} if setting == "default" else {"fused": True}))
    first = 0
    if task.get("checkpoint"):
        load_checkpoint(task["checkpoint"], model, optimizer)
        first = task["first_step"]
    network = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True) if world > 1 else model
    if setting == "compiled":
        network = torch.compile(network)

    if "tokens" in task:
        inputs, targets = muster_data.token_rows(task["tokens"], task["context"])
    else:
        inputs, targets = muster_data.synthetic_train(task["samples"], task["shape"], task["classes"], task["seed"])
    inputs, targets = torch.from_numpy(inputs), torch.from_numpy(targets)
    # Gathered before the clock runs: Muster's own gathering is inside its figure.
    distinct = task["samples"] // task["batch_size"]
    batches = []
    for step in range(first, first + distinct):
        ids = torch.tensor(muster_data.sample_ids(task["samples"], task["batch_size"], task["seed"], step, rank, world))
        x = inputs[ids]
        x = x.to(memory_format=torch.channels_last) if setting == "channels_last" else x
        batches.append((x, targets[ids], ids))

    def train(step):
        x, y, ids = batches[step % distinct]  # one epoch's, again and again
        optimizer.zero_grad(set_to_none=True)
        if task["model"] == "mae":
            # Muster's own where losses are compared; drawn as fast as may be where time is.
            exact = task.get("checkpoint")
            seed = muster_data.mae_step_seed(task["seed"], first + step)
            noise = muster_data.mae_noise(seed, ids, model.patches) if exact else None
            loss = network(x, torch.from_numpy(noise) if exact else model.noise(len(x)))
        else:
            loss = F.cross_entropy(network(x), y.flatten())
        loss.backward()
        optimizer.step()
        return loss

    if task.get("checkpoint"):
        losses = []
        for step in range(task["steps"]):
            torch.manual_seed(muster_data.step_seed(task["seed"], first + step, rank))
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
