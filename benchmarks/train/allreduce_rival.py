"""Seconds of one all-reduce between two ranks of this host: torch.distributed over Gloo. The rival of allreduce.cc.

Started by benchmarks/train/run, once per rank. Rank 0 prints a line of JSON per size.
"""
import json
import statistics
import time

import torch
import torch.distributed as dist

SIZES = (4 << 10, 512 << 10, 4 << 20)
WARM_UP, SECONDS_PER_BLOCK = 20, 0.4


def seconds_of(value):
    start = time.perf_counter()
    dist.all_reduce(value)
    return time.perf_counter() - start


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for size in SIZES:
        value = torch.ones(size // 4)
        warm = sum(seconds_of(value) for _ in range(WARM_UP))
        calls = torch.tensor([min(20000, max(20, int(SECONDS_PER_BLOCK * WARM_UP / warm)))])
        dist.broadcast(calls, 0)
        seconds = []
        for _ in range(int(calls)):
            value.fill_(1.0)
            seconds.append(seconds_of(value))
        if dist.get_rank() == 0:
            print(json.dumps({"transport": "python", "bytes": size, "seconds": statistics.median(seconds)}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
