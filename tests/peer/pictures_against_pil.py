#!/usr/bin/env python3
"""Crops of pictures of every kind beside what PIL makes of them: open, turn upright, convert, crop, resize.

Decoders are the same libraries, and the filter the same triangle with weights rounded a little otherwise: levels differ by
one at most. A JPEG whose crop is at least twice the output is decoded at half its size first, which is another filter: by
a level or two on average.
"""
import io
import os
import random
import subprocess
import tempfile
import unittest

import numpy as np
from PIL import Image, ImageOps

PROGRAM = os.environ["MUSTER_DECODE_CROPS"]


def photo(width, height, mode, seed):
    """Waves, edges and noise."""
    generator = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    channels = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4, "CMYK": 4}[mode]
    planes = []
    for channel in range(channels):
        plane = 128 + 70 * np.sin(x / 17 + y / 23 + channel) + 25 * ((x // 31 + y // 27) % 2)
        planes.append(plane + generator.normal(0, 6, (height, width)))
    levels = [Image.fromarray(np.clip(plane, 0, 255).astype(np.uint8)) for plane in planes]
    return levels[0] if channels == 1 else Image.merge(mode, levels)


def files():
    """Name, bytes and whether it is a JPEG."""
    size = (203, 151)

    def saved(image, kind, **options):
        out = io.BytesIO()
        image.save(out, kind, **options)
        return out.getvalue()

    colour = photo(*size, "RGB", 1)
    exif = Image.Exif()
    for subsampling in ("4:4:4", "4:2:2", "4:2:0"):
        yield "JPEG " + subsampling, saved(colour, "JPEG", quality=90, subsampling=subsampling), True
    yield "progressive JPEG", saved(colour, "JPEG", quality=90, progressive=True), True
    yield "JPEG with restart markers", saved(colour, "JPEG", quality=90, restart_marker_blocks=1), True
    yield "grey JPEG", saved(photo(*size, "L", 2), "JPEG", quality=90), True
    yield "CMYK JPEG", saved(photo(*size, "CMYK", 3), "JPEG", quality=90), True
    for orientation in range(1, 9):
        exif[0x0112] = orientation
        yield "JPEG, orientation %d" % orientation, saved(colour, "JPEG", quality=90, exif=exif), True
    exif[0x0112] = 6
    yield "PNG, orientation 6", saved(colour, "PNG", exif=exif), False
    yield "WebP, orientation 6", saved(colour, "WEBP", quality=80, exif=exif), False
    for mode in ("L", "LA", "RGB", "RGBA"):
        yield "PNG " + mode, saved(photo(*size, mode, 4), "PNG"), False
    yield "PNG with a palette", saved(colour.quantize(200), "PNG"), False
    yield "PNG with a palette of 4 bits", saved(colour.quantize(13), "PNG"), False
    yield "PNG with transparent colours", saved(colour.quantize(50), "PNG", transparency=3), False
    yield "PNG of 1 bit", saved(photo(*size, "L", 5).convert("1"), "PNG"), False
    yield "WebP", saved(colour, "WEBP", quality=80), False
    yield "WebP with alpha", saved(photo(*size, "RGBA", 6), "WEBP", quality=80), False
    yield "lossless WebP", saved(photo(*size, "RGBA", 6), "WEBP", lossless=True), False


def crops(width, height, count):
    generator = random.Random(7)
    yield 0, 0, width, height
    for _ in range(count):
        w, h = generator.randint(20, width), generator.randint(20, height)
        yield generator.randint(0, width - w), generator.randint(0, height - h), w, h


class AgainstPil(unittest.TestCase):
    def test_every_kind(self):
        asked, wanted = [], []
        with tempfile.TemporaryDirectory(prefix="muster-peer-") as folder:
            for number, (name, content, is_jpeg) in enumerate(files()):
                # By content, not by name.
                path = os.path.join(folder, "%d.JPEG" % number)
                with open(path, "wb") as out:
                    out.write(content)
                for upright in (0, 1):
                    image = Image.open(io.BytesIO(content))
                    if upright:
                        image = ImageOps.exif_transpose(image)
                    for turn, (x, y, w, h) in enumerate(crops(*image.size, 8)):
                        for scaled in (False, True) if is_jpeg else (False,):
                            flip = turn % 2
                            width, height = (w // 2 - 1, h // 2 - 2) if scaled else (w // 2 + 5, h // 2 + 40)
                            converted = image.convert("RGB").crop((x, y, x + w, y + h))
                            resized = converted.resize((width, height), Image.Resampling.BILINEAR)
                            if flip:
                                resized = ImageOps.mirror(resized)
                            asked.append("%s %d %d %d %d %d %d 3 %d %d\n" % (path, x, y, w, h, width, height, flip, upright))
                            wanted.append((name, scaled, np.asarray(resized)))
            got = subprocess.run([PROGRAM], input="".join(asked).encode(), stdout=subprocess.PIPE, check=True,
                                 timeout=120).stdout
        at = 0
        largest, means = {}, {}
        for name, scaled, theirs in wanted:
            ours = np.frombuffer(got, np.uint8, theirs.size, at).reshape(theirs.shape)
            at += theirs.size
            difference = np.abs(ours.astype(int) - theirs.astype(int))
            key = (scaled, name)
            largest[key] = max(largest.get(key, 0), int(difference.max()))
            means[key] = max(means.get(key, 0), float(difference.mean()))
        self.assertEqual(at, len(got))
        for key in sorted(largest):
            print("%-8s %-32s largest difference %2d, mean %.4f" % ("scaled" if key[0] else "", key[1], largest[key],
                                                                    means[key]))
        for (scaled, name), worst in largest.items():
            if scaled:
                self.assertLessEqual(means[(scaled, name)], 2.5, name)
            else:
                self.assertLessEqual(worst, 1, name)
                # PIL resizes rows of the upright picture first, Muster those of the stored one.
                turned = name[-1] in "5678" and "orientation" in name
                self.assertLessEqual(means[(scaled, name)], 0.3 if turned else 0.1, name)


if __name__ == "__main__":
    unittest.main()
