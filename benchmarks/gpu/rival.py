"""PyTorch on the device of scripts/gpu-check: the same networks, batches and optimizer as Muster's.

`rival.py --serve` answers tasks from stdin, a line of JSON each: it continues one of Muster's checkpoints and gives the
losses. `rival.py TASK` trains for ever and prints every `report_every` steps how many are done; `setting` is how: eager,
compiled (torch.compile) or graphs (torch.compile with CUDA graphs), the optimizer always fused. With `stop_after` it ends
after so many steps: to fill the cache of compiled kernels.
"""
import contextlib
import json
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import ddp_rival  # noqa: E402
import muster_data  # noqa: E402

TYPES = {"F32": torch.float32, "F64": torch.float64, "I64": torch.int64, "I32": torch.int32}
PICTURES = ("resnet18", "resnet50", "vit")


def network_of(task):
    network = ddp_rival.build(task).to(task["device"])
    if task["device"] == "cuda" and task["model"] in PICTURES:
        network = network.to(memory_format=torch.channels_last)
    return network


def read_safetensors(path):
    """The format is 8 bytes of length, a JSON header, and the tensors' bytes: no package is needed for it."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = bytearray(file.read())
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        numbers = torch.frombuffer(data[begin:end], dtype=TYPES[entry["dtype"]])
        tensors[name] = numbers.reshape(entry["shape"])
    return tensors


def load_checkpoint(folder, network, optimizer):
    """Weights, buffers and AdamW's moments of a Muster checkpoint."""
    network.load_state_dict(read_safetensors(os.path.join(folder, "model.safetensors")))
    saved = read_safetensors(os.path.join(folder, "optimizer.safetensors"))
    for name, parameter in network.named_parameters():
        moments = {}
        for moment in ("exp_avg", "exp_avg_sq"):
            moments[moment] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
            moments[moment].copy_(saved[f"{moment}.{name}"])
        optimizer.state[parameter] = {"step": saved["step"].clone().to(parameter.device), **moments}


def autocast_for(task):
    if task["precision"] in ("fp32", "tf32"):
        return contextlib.nullcontext()
    return torch.autocast(task["device"], torch.bfloat16 if task["precision"] == "bf16" else torch.float16)


def configure(task):
    torch.manual_seed(task["seed"])
    if task["device"] == "cpu":
        torch.set_num_threads(1)
    tf32 = task["precision"] == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32


def batches_of(task, first, count):
    """The batches that Muster takes, gathered ahead; pinned, so that copies run beside the device's work."""
    if "tokens" in task:
        inputs, targets = muster_data.token_rows(task["tokens"], task["context"])
    else:
        inputs, targets = muster_data.synthetic_train(task["samples"], task["shape"], task["classes"], task["seed"])
    batches = []
    for step in range(first, first + count):
        ids = np.array(muster_data.sample_ids(task["samples"], task["batch_size"], task["seed"], step, 0, 1))
        x, y = torch.from_numpy(inputs[ids]), torch.from_numpy(targets[ids]).flatten()
        if task["device"] == "cuda":
            if task["model"] in PICTURES:
                x = x.contiguous(memory_format=torch.channels_last)
            x, y = x.pin_memory(), y.pin_memory()
        batches.append((x, y))
    return batches


class Trainer:
    def __init__(self, task, first, count):
        configure(task)
        self.task, self.network = task, network_of(task)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=task["lr"], weight_decay=0.01, fused=True)
        self.called = {"eager": lambda: self.network, "compiled": lambda: torch.compile(self.network),
                       "graphs": lambda: torch.compile(self.network, mode="reduce-overhead")}[task.get("setting", "eager")]()
        self.batches = batches_of(task, first, count)

    def step(self, index):
        x, y = (part.to(self.task["device"], non_blocking=True) for part in self.batches[index % len(self.batches)])
        self.optimizer.zero_grad(set_to_none=True)
        with autocast_for(self.task):
            loss = F.cross_entropy(self.called(x), y)
        loss.backward()
        self.optimizer.step()
        return loss


def losses_from_checkpoint(task):
    trainer = Trainer(task, task["first_step"], task["steps"])
    load_checkpoint(task["checkpoint"], trainer.network, trainer.optimizer)
    return [trainer.step(index).item() for index in range(task["steps"])]


def serve():
    for line in sys.stdin:
        try:
            answer = {"losses": losses_from_checkpoint(json.loads(line))}
        except Exception as error:  # whatever torch says is the answer
            answer = {"error": f"{type(error).__name__}: {error}"[:400]}
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        print(json.dumps(answer), flush=True)


def peak_bytes(device):
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def train_for_ever(task):
    if task["device"] == "cuda":
        torch.backends.cudnn.benchmark = True  # Python at its best
    trainer = Trainer(task, 0, task["samples"] // task["batch_size"])
    step = 0
    while step != task.get("stop_after"):
        loss = trainer.step(step)
        step += 1
        if step % task["report_every"] == 0:
            print(json.dumps({"step": step, "loss": loss.item(), "peak_bytes": peak_bytes(task["device"])}), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve()
    else:
        train_for_ever(json.loads(sys.argv[1]))
