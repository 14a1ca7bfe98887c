#!/usr/bin/env python3
"""Every network that has a name, against the same one of torchvision or Hugging Face: as many parameters, and tensors of the
same names and shapes.

The references are made on torch's meta device, so that the largest ones cost nothing. What `muster-trainer model` calls by
a name and what a job's spec asks for by its `size` must both be that network. Needs scripts/requirements-peer.txt; a
missing package fails.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.environ.get("MUSTER_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ.get("MUSTER_BIN_DIR", os.path.join(ROOT, "build/release/bin"))

import reference_models  # noqa: E402, F401: before torchvision and transformers

import torch  # noqa: E402
import torchvision  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel, ViTMAEConfig, ViTMAEForPreTraining  # noqa: E402

PICTURE = {"synthetic": {"samples": 10, "shape": [3, 224, 224], "classes": 1000}}
SMALL_PICTURE = {"synthetic": {"samples": 10, "shape": [3, 32, 32], "classes": 10}}
TOKENS = {"tokens": {"path": "/nowhere"}}


def small_resnet18():
    model = torchvision.models.resnet18(num_classes=10)
    model.conv1 = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False)
    return model


def vit(layers, heads, width):
    return torchvision.models.VisionTransformer(image_size=224, patch_size=16, num_layers=layers, num_heads=heads,
                                                hidden_dim=width, mlp_dim=4 * width)


def mae(encoder, decoder):
    layers, heads, width = encoder
    decoder_layers, decoder_heads, decoder_width = decoder
    return ViTMAEForPreTraining(ViTMAEConfig(
        num_hidden_layers=layers, num_attention_heads=heads, hidden_size=width, intermediate_size=4 * width,
        decoder_num_hidden_layers=decoder_layers, decoder_num_attention_heads=decoder_heads,
        decoder_hidden_size=decoder_width, decoder_intermediate_size=4 * decoder_width))


# Name: what a spec says for it, of which data, and the reference. Where the reference has the published size it is named
# or left to its own defaults.
NETWORKS = {
    **{name: ({name: {"stem": "imagenet"}}, PICTURE, getattr(torchvision.models, name))
       for name in ("resnet18", "resnet34", "resnet50", "resnet101")},
    "resnet18-small": ({"resnet18": {}}, SMALL_PICTURE, small_resnet18),
    "vit-tiny": ({"vit": {}}, PICTURE, lambda: vit(12, 3, 192)),
    "vit-s-16": ({"vit": {"size": "s_16"}}, PICTURE, lambda: vit(12, 6, 384)),
    "vit-b-16": ({"vit": {"size": "b_16"}}, PICTURE, torchvision.models.vit_b_16),
    "vit-l-16": ({"vit": {"size": "l_16"}}, PICTURE, torchvision.models.vit_l_16),
    "mae-tiny": ({"mae": {}}, PICTURE, lambda: mae((12, 3, 192), (2, 4, 128))),
    "mae-small": ({"mae": {"size": "small"}}, PICTURE, lambda: mae((12, 6, 384), (4, 8, 256))),
    "mae-base": ({"mae": {"size": "base"}}, PICTURE, lambda: ViTMAEForPreTraining(ViTMAEConfig())),
    "mae-large": ({"mae": {"size": "large"}}, PICTURE, lambda: mae((24, 16, 1024), (8, 16, 512))),
    "gpt2-small": ({"gpt2": {}}, TOKENS, lambda: GPT2LMHeadModel(GPT2Config())),
    "gpt2-medium": ({"gpt2": {"size": "medium"}}, TOKENS,
                    lambda: GPT2LMHeadModel(GPT2Config(n_layer=24, n_head=16, n_embd=1024))),
}
OWN = {"mlp"}  # there is no reference


def ask(program, *arguments):
    done = subprocess.run([os.path.join(BIN, program), "model", *arguments, "-o", "json"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{program} model {' '.join(arguments)}: {done.stderr}")
    return json.loads(done.stdout)


def shapes(shown):
    return {tensor["name"]: tensor["shape"] for tensor in shown["tensors"]}


class CatalogAgainstReference(unittest.TestCase):
    def test_the_catalog_is_what_is_compared_here(self):
        self.assertEqual({entry["name"] for entry in ask("muster-trainer", "ls")}, set(NETWORKS) | OWN)

    def test_each_has_the_references_parameters_by_name_and_shape(self):
        for name, (spec, data, make) in NETWORKS.items():
            with self.subTest(name):
                with torch.device("meta"):
                    model = make()
                theirs = {reference_models.published(key): list(tensor.shape) for key, tensor in model.state_dict().items()}
                theirs.pop("lm_head.weight", None)  # the token table, which is there already
                by_name = ask("muster-trainer", "show", name)
                self.assertEqual(shapes(by_name), theirs)
                count = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
                self.assertEqual(by_name["parameters"], count)
                with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                    json.dump({"name": name, "train": {"model": spec, "data": data, "batch_size": 1, "steps": 1}}, file)
                    file.flush()
                    self.assertEqual(shapes(ask("muster", "show", "-f", file.name)), theirs)
                print(f"{name}: {count:,} parameters", file=sys.stderr)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
