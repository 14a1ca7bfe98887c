"""Hugging Face's masked autoencoder, ViTMAEForPreTraining, as the rival of benchmarks/train/run. Needs
scripts/requirements-peer.txt. Import it only where it is wanted: it takes seconds."""
import os
import re
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests/peer"))
import reference_models  # noqa: E402, F401: before transformers

import torch  # noqa: E402
from torch import nn  # noqa: E402
from transformers import ViTMAEConfig, ViTMAEForPreTraining  # noqa: E402


def published(name):
    """transformers' name of a tensor -> its name in the published files, which is Muster's."""
    name = re.sub(r"^vit\.layers\.", "vit.encoder.layer.", name)
    name = re.sub(r"attention\.(q|k|v)_proj", lambda m: "attention.attention." + {"q": "query", "k": "key", "v": "value"}[m[1]],
                  name)
    name = name.replace("attention.o_proj", "attention.output.dense")
    return name.replace("mlp.fc1", "intermediate.dense").replace("mlp.fc2", "output.dense")


class Mae(nn.Module):
    """The loss of pictures, so that torch.compile sees it all. What hides patches is drawn outside: eager and compiled
    then draw the same, which is what Muster draws when torch's generator is where Muster's step puts it."""

    def __init__(self, task):
        super().__init__()
        channels, height, _ = task["shape"]
        self.mae = ViTMAEForPreTraining(ViTMAEConfig(
            image_size=height, num_channels=channels, patch_size=task["patch"], num_hidden_layers=task["layers"],
            num_attention_heads=task["heads"], hidden_size=task["width"], intermediate_size=4 * task["width"],
            decoder_num_hidden_layers=task["decoder_layers"], decoder_num_attention_heads=task["decoder_heads"],
            decoder_hidden_size=task["decoder_width"], decoder_intermediate_size=4 * task["decoder_width"],
            mask_ratio=task["mask_ratio"], norm_pix_loss=True))
        self.patches = (height // task["patch"]) ** 2

    def noise(self, samples):
        return torch.rand(samples, self.patches)

    def forward(self, pictures, noise):
        return self.mae(pictures, noise=noise).loss

    @staticmethod
    def name_in_muster(name):
        return published(name.removeprefix("mae."))
