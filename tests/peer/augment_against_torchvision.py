#!/usr/bin/env python3
"""Each change of a picture beside torchvision.transforms.v2's own: the operations of RandAugment, TrivialAugment and
AutoAugment at several magnitudes and in both directions, AutoAugment's tables, and what colour jitter, grey, flips and blur
do at given parameters.

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
from torchvision.transforms.v2 import functional as F  # noqa: E402

PROGRAM = os.environ["MUSTER_PICTURE_CHANGES"]
# In the order of worker/data/augment/policy_ops.h.
NAMES = ["Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast",
         "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize", "Invert"]
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


def changed(given, lines):
    """What the program makes of the pictures for each line of its list."""
    with tempfile.TemporaryDirectory(prefix="muster-peer-") as folder:
        source, out, changes = (os.path.join(folder, name) for name in ("in.safetensors", "out.safetensors", "list"))
        save_file({"pictures": given}, source)
        with open(changes, "w") as file:
            file.writelines(line + "\n" for line in lines)
        subprocess.run([PROGRAM, source, out, changes], check=True, timeout=60)
        results = load_file(out)
    return [results[f"change.{i}"] for i in range(len(lines))]


class AgainstTorchvision(unittest.TestCase):
    def check_policy(self, name, transform, bins, indices):
        """Of magnitudes none that puts a pixel just between two."""
        names = [operation for operation in NAMES if operation in transform._AUGMENTATION_SPACE]
        self.assertEqual(set(names), set(transform._AUGMENTATION_SPACE) & set(NAMES))
        worst = {}
        for shape in SHAPES:
            given = pictures(shape)
            cases = [(index, sign, operation) for index in indices for sign in (1, -1) for operation in names]
            ours = changed(given, [f"policy {name} {NAMES.index(operation)} {index / (bins - 1)!r} {sign}"
                                   for index, sign, operation in cases])
            for (index, sign, operation), mine in zip(cases, ours):
                magnitudes_of, signed = transform._AUGMENTATION_SPACE[operation]
                magnitudes = magnitudes_of(bins, shape[2], shape[3])
                magnitude = 0.0 if magnitudes is None else float(magnitudes[index])
                magnitude *= -1 if signed and sign < 0 else 1
                # Directions are drawn: which of the two is called positive is nobody's business.
                angle = -magnitude if operation in ("Rotate", "ShearX", "ShearY") else magnitude
                theirs = transform._apply_image_or_video_transform(
                    given, operation, angle, interpolation=v2.InterpolationMode.NEAREST, fill={torch.Tensor: None})
                distance = (mine - theirs).abs()
                off = (distance > 1.5 / 255).float().mean().item()
                worst[operation] = max(worst.get(operation, 0), off)
                self.assertLessEqual(off, 0.01 if operation in GEOMETRY else 0.0,
                                     f"{name}: {operation} of {shape} at {index}, sign {sign}")
        print(name, {operation: round(share, 5) for operation, share in worst.items()})

    def test_every_operation_of_rand_augment(self):
        transform = v2.RandAugment()
        self.assertEqual(set(NAMES) - {"Invert"}, set(transform._AUGMENTATION_SPACE))
        self.check_policy("rand", transform, 31, (0, 7, 9, 17, 23, 30))

    def test_every_operation_of_trivial_augment(self):
        transform = v2.TrivialAugmentWide()
        self.assertEqual(set(NAMES) - {"Invert"}, set(transform._AUGMENTATION_SPACE))
        self.check_policy("trivial", transform, 31, (0, 1, 7, 9, 17, 23, 29, 30))

    def test_every_operation_of_auto_augment(self):
        transform = v2.AutoAugment()
        self.assertEqual(set(NAMES) - {"Identity"}, set(transform._AUGMENTATION_SPACE))
        self.check_policy("auto", transform, 10, (0, 1, 3, 4, 5, 7, 8, 9))

    def test_the_tables_of_auto_augment(self):
        lines = subprocess.run([PROGRAM, "tables"], check=True, timeout=60, stdout=subprocess.PIPE, text=True).stdout
        ours = {}
        for line in lines.splitlines():
            policy, number, operation, chance, magnitude = line.split()
            ours.setdefault(int(policy), {}).setdefault(int(number), []).append(
                (NAMES[int(operation)], float(chance), int(magnitude)))
        for policy, theirs in ((1, v2.AutoAugmentPolicy.IMAGENET), (2, v2.AutoAugmentPolicy.CIFAR10),
                               (3, v2.AutoAugmentPolicy.SVHN)):
            wanted = [[(operation, chance, magnitude or 0) for operation, chance, magnitude in sub]
                      for sub in v2.AutoAugment(theirs)._policies]
            self.assertEqual([ours[policy][number] for number in range(25)], wanted)

    def test_colours_flips_and_blurs(self):
        changes = []
        for factor in (0.0, 0.3, 1.0, 1.7, 2.4):
            changes += [(f"change brightness {factor} 0 0", lambda p, f=factor: F.adjust_brightness(p, f)),
                        (f"change contrast {factor} 0 0", lambda p, f=factor: F.adjust_contrast(p, f)),
                        (f"change saturation {factor} 0 0", lambda p, f=factor: F.adjust_saturation(p, f))]
        for turn in (-0.5, -0.31, -0.1, 0.0, 0.05, 0.25, 0.5):
            changes.append((f"change hue {turn} 0 0", lambda p, t=turn: F.adjust_hue(p, t)))
        for radius in (1, 3, 8):
            for sigma in (0.1, 0.8, 2.0):
                changes.append((f"change blur {sigma} {radius} 0",
                                lambda p, r=radius, s=sigma: F.gaussian_blur(p, [2 * r + 1, 2 * r + 1], [s, s])))
        changes += [("change grey 0 0 0", lambda p: F.rgb_to_grayscale(p, p.shape[1])),
                    ("change flip_horizontally 0 0 0", F.horizontal_flip),
                    ("change flip_vertically 0 0 0", F.vertical_flip),
                    ("change invert 0 0 0", F.invert)]
        for shape in SHAPES:
            given = pictures(shape)
            given[0, :, :4] = 0.25  # greys, blacks and whites, where hues are none
            given[0, :, 4:6] = 0
            given[0, :, 6:8] = 1
            worst = {}
            for (line, theirs), ours in zip(changes, changed(given, [line for line, _ in changes])):
                distance = (ours - theirs(given)).abs().max().item()
                name = line.split()[1]
                worst[name] = max(worst.get(name, 0), distance)
                self.assertLess(distance, 2e-6, f"{line} of {shape}")
            print(shape, {name: f"{distance:.1e}" for name, distance in worst.items()})


if __name__ == "__main__":
    unittest.main()
