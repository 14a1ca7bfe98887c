#!/usr/bin/env python3
"""Each operation of RandAugment beside torchvision.transforms.v2's own, at several magnitudes and in both directions.

Colours agree within a rounding of 8 bits. Geometry picks pixels, and torch does so in fp32: one in a hundred may be its
neighbour.
"""
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import reference_models  # noqa: E402, F401: before torchvision

import torch  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

PROGRAM = os.environ["MUSTER_RAND_AUGMENT_OPS"]
# In the order of worker/data/images/rand_augment.h.
NAMES = ["Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast",
         "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize"]
GEOMETRY = {"ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate"}
SHAPES = [(6, 3, 24, 40), (4, 1, 33, 17)]


def pictures(shape):
    """Noise over smooth slopes, in whole levels of 8 bits as decoded pictures have them."""
    generator = torch.Generator().manual_seed(3)
    rows = torch.linspace(0, 1, shape[2]).view(1, 1, -1, 1)
    columns = torch.linspace(0, 1, shape[3]).view(1, 1, 1, -1)
    strength = torch.rand(shape[0], shape[1], 1, 1, generator=generator)
    mixed = 0.5 * strength * (rows + columns) + 0.4 * torch.rand(shape, generator=generator)
    return mixed.clamp(0, 1).mul(255).round().div(255)


class AgainstTorchvision(unittest.TestCase):
    def test_every_operation(self):
        transform = v2.RandAugment()
        self.assertEqual(set(NAMES), set(transform._AUGMENTATION_SPACE))
        worst = {}
        for shape in SHAPES:
            given = pictures(shape)
            for index in (0, 7, 9, 17, 23, 30):  # of which none puts a pixel just between two
                for sign in (1, -1):
                    with tempfile.TemporaryDirectory(prefix="muster-peer-") as folder:
                        source, out = os.path.join(folder, "in.safetensors"), os.path.join(folder, "out.safetensors")
                        save_file({"pictures": given}, source)
                        subprocess.run([PROGRAM, source, out, str(index), str(sign)], check=True, timeout=60)
                        ours = load_file(out)
                    for number, name in enumerate(NAMES):
                        magnitudes_of, signed = transform._AUGMENTATION_SPACE[name]
                        magnitudes = magnitudes_of(31, shape[2], shape[3])
                        magnitude = 0.0 if magnitudes is None else float(magnitudes[index])
                        magnitude *= -1 if signed and sign < 0 else 1
                        # Directions are drawn: which of the two is called positive is nobody's business.
                        angle = -magnitude if name in ("Rotate", "ShearX", "ShearY") else magnitude
                        theirs = transform._apply_image_or_video_transform(
                            given, name, angle, interpolation=v2.InterpolationMode.NEAREST, fill={torch.Tensor: None})
                        distance = (ours[f"op.{number}"] - theirs).abs()
                        off = (distance > 1.5 / 255).float().mean().item()
                        worst[name] = max(worst.get(name, 0), off)
                        self.assertLessEqual(off, 0.01 if name in GEOMETRY else 0.0,
                                             f"{name} of {shape} at {index}, sign {sign}")
        print({name: round(share, 5) for name, share in worst.items()})


if __name__ == "__main__":
    unittest.main()
