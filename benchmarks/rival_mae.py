"""Hugging Face's masked autoencoder, ViTMAEForPreTraining, as the rival of benchmarks/train/run. Needs
scripts/requirements-peer.txt. Import it only where it is wanted: it takes seconds."""
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests/peer"))
from reference_models import published  # noqa: E402: before transformers

import torch  # noqa: E402
from torch import nn  # noqa: E402
from transformers import ViTMAEConfig, ViTMAEForPreTraining  # noqa: E402


class Mae(nn.Module):
    """The loss of pictures, so that torch.compile sees it all. What hides patches is drawn outside: eager and compiled
    then draw the same, or are given what Muster draws (muster_data.mae_noise)."""

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
