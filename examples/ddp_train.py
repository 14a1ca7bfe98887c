"""A plain PyTorch DDP script as a command job: it trains a small network on made-up data, reports its loss, hands over
checkpoints and resumes from them. `muster submit --ranks 2 -- python ddp_train.py`; it also runs under torchrun."""
import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from muster_client import Muster


def batch(step, rank, size=16):
    """The same for the same step and rank, so that a resumed run sees what an undisturbed one would have seen."""
    generator = torch.Generator().manual_seed(step * 1000 + rank)
    inputs = torch.randn(size, 8, generator=generator)
    return inputs, inputs.sin().sum(dim=1, keepdim=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--checkpoint-every", type=int, default=200)
    parser.add_argument("--report-every", type=int, default=20)
    args = parser.parse_args()

    dist.init_process_group("gloo")  # MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE are set
    rank = dist.get_rank()
    muster = Muster()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    first = 0
    if os.environ.get("MUSTER_RESUME"):
        saved = torch.load(os.path.join(os.environ["MUSTER_RESUME"], "train.pt"), weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"]
        print(f"rank {rank} resumes at step {first}")
    ddp = DistributedDataParallel(model)

    for step in range(first + 1, args.steps + 1):
        inputs, targets = batch(step, rank)
        loss = torch.nn.functional.mse_loss(ddp(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % args.report_every == 0:
            muster.progress("train", step, args.steps)
            muster.metrics(step, loss=loss.item())
        if rank == 0 and step % args.checkpoint_every == 0:
            path = os.path.join(os.environ.get("MUSTER_CHECKPOINT_DIR", "."), "train.pt")
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path)
            muster.checkpoint(path, step)

    weights = sum(p.double().sum().item() for p in model.parameters())
    if rank == 0:
        print(f"done: weights {weights!r}")
        muster.result(weights=weights)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
