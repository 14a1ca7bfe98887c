#!/usr/bin/env python3
"""Random-resized crops to 224x224 a second on one core: Muster's decoder beside PIL and torchvision.

  MUSTER_BIN_DIR=build/release/bin benchmarks/data/decode_rival.py

muster-bench-decode makes the JPEGs and the crops (its head says which) and measures Muster; then PIL decodes the same
files with the same crops and flips, as a DataLoader's worker does it: open, convert, crop, resize, flip, to an array. Where
torchvision can be imported, its decode_jpeg and antialiased resized_crop, too. All on one core; the best of several rounds
of a thread's own time on the processor, so that other work on the machine counts little.
"""
import io
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
from PIL import Image

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
PROGRAM = os.path.join(os.environ.get("MUSTER_BIN_DIR", "build/release/bin"), "muster-bench-decode")


def through_pil(content, box, flip):
    x, y, width, height = box
    image = Image.open(io.BytesIO(content)).convert("RGB")
    image = image.resize((224, 224), Image.Resampling.BILINEAR, box=(x, y, x + width, y + height))
    if flip:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return np.asarray(image)


def torchvision_way():
    """The same by torchvision, or None."""
    try:
        import torch
        from torchvision.io import decode_jpeg, ImageReadMode
        from torchvision.transforms.v2 import functional
    except (ImportError, RuntimeError, OSError) as error:
        print("torchvision is left out:", error)
        return None
    torch.set_num_threads(1)

    def through_torchvision(content, box, flip):
        x, y, width, height = box
        picture = decode_jpeg(torch.frombuffer(bytearray(content), dtype=torch.uint8), ImageReadMode.RGB)
        picture = functional.resized_crop(picture, y, x, height, width, [224, 224], antialias=True)
        return functional.horizontal_flip(picture) if flip else picture

    try:
        out = io.BytesIO()
        Image.new("RGB", (300, 300)).save(out, "JPEG")
        through_torchvision(out.getvalue(), (0, 0, 290, 290), True)
    except (RuntimeError, AttributeError) as error:
        print("torchvision is left out:", str(error).splitlines()[0])
        return None
    return through_torchvision


def a_second(way, work):
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.thread_time()
        for content, box, flip in work:
            way(content, box, flip)
        best = min(best, time.thread_time() - begin)
    return len(work) / best


def main():
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
    ways = {"PIL": through_pil, "torchvision": torchvision_way()}
    with tempfile.TemporaryDirectory(prefix="muster-decode-") as folder:
        table = subprocess.run([PROGRAM, folder, str(ROUNDS)], stdout=subprocess.PIPE, check=True, text=True).stdout
        print(table, end="")
        ours = {}
        for line in table.splitlines():
            fields = line.split()
            if fields[-2:] == ["a", "second"]:
                ours[fields[0], fields[1]] = float(fields[2])
        for name in ("A", "B"):
            work = []
            with open(os.path.join(folder, name + ".crops")) as crops:
                for line in crops:
                    file, x, y, width, height, flip = line.split()
                    with open(os.path.join(folder, file), "rb") as picture:
                        work.append((picture.read(), (int(x), int(y), int(width), int(height)), flip == "1"))
            print("%s ours / ceiling %.2f, repacked / ours %.2f" % (
                name, ours[name, "ours"] / ours[name, "ceiling"], ours[name, "ours_repacked"] / ours[name, "ours"]))
            for rival, way in ways.items():
                if way is None:
                    continue
                speed = a_second(way, work)
                print("%s %-14s %8.1f a second; ours is %.2f times, ours after repacking %.2f times as fast" % (
                    name, rival, speed, ours[name, "ours"] / speed, ours[name, "ours_repacked"] / speed))


if __name__ == "__main__":
    main()
