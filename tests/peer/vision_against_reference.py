#!/usr/bin/env python3
"""Muster's vision models against torchvision and Hugging Face: the same weights must give the same outputs and train alike.

Outputs: the reference's random weights, as safetensors, through `muster-trainer forward`; every value within 1e-4.
Training: the real muster-trainer runs twenty steps; the reference takes its weights and moments after ten and trains ten steps
on the same batches; each loss within 1e-3 relative. Needs scripts/requirements-peer.txt; a missing package fails.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.environ.get("MUSTER_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ.get("MUSTER_BIN_DIR", os.path.join(ROOT, "build/release/bin"))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

from reference_models import published  # noqa: E402: before torchvision and transformers

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import torchvision  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from transformers import ViTMAEConfig, ViTMAEForPreTraining  # noqa: E402
from transformers.models.vit_mae.modeling_vit_mae import build_2d_sinusoidal_position_embedding  # noqa: E402

import muster_data  # noqa: E402
from muster_gang import Gang, resolved_spec  # noqa: E402
from rival_mae import published  # noqa: E402

TRAINER = os.path.join(BIN, "muster-trainer")
STEPS, SAMPLES, BATCH, CLASSES, SEED, LR = 10, 64, 8, 10, 11, 1e-3
MAE_EVALUATION_SEED = 0x6D6165  # worker/models/mae.h
SHAPE = [3, 64, 64]

VIT_S_16 = {"patch_size": 16, "layers": 12, "heads": 6, "width": 384, "mlp_width": 1536}
VIT_B_16 = {"patch_size": 16, "layers": 12, "heads": 12, "width": 768, "mlp_width": 3072}
VIT_L_16 = {"patch_size": 16, "layers": 24, "heads": 16, "width": 1024, "mlp_width": 4096}
VIT_TINY = {"patch_size": 8, "layers": 12, "heads": 3, "width": 192, "mlp_width": 768}
MAE = {"patch_size": 8, "layers": 3, "heads": 4, "width": 64, "mlp_width": 256, "decoder_layers": 2, "decoder_heads": 2,
       "decoder_width": 32, "decoder_mlp_width": 128, "mask_ratio": 0.75, "norm_pix_loss": True}
MAE_BASE = {"patch_size": 16, "layers": 12, "heads": 12, "width": 768, "mlp_width": 3072, "decoder_layers": 8,
            "decoder_heads": 16, "decoder_width": 512, "decoder_mlp_width": 2048, "mask_ratio": 0.75, "norm_pix_loss": True}
MAE_CONFIG = dict(image_size=SHAPE[1], num_channels=SHAPE[0], patch_size=8, num_hidden_layers=3, num_attention_heads=4,
                  hidden_size=64, intermediate_size=256, decoder_num_hidden_layers=2, decoder_num_attention_heads=2,
                  decoder_hidden_size=32, decoder_intermediate_size=128, mask_ratio=0.75, norm_pix_loss=True)
OPTIMIZERS = {
    "adamw": (lambda p: torch.optim.AdamW(p, lr=LR, weight_decay=0.1), {"exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq"}),
    "sgd": (lambda p: torch.optim.SGD(p, lr=LR, weight_decay=0.1, momentum=0.9, nesterov=True),
            {"momentum_buffer": "momentum"}),
}


def resnet_spec(name):
    return {name: {"width": 64, "stem": "imagenet"}}


def vit_spec(size):
    return {"vit": dict(size, dropout=0.0, attention_dropout=0.0)}


def vit(size):
    return torchvision.models.VisionTransformer(
        image_size=SHAPE[1], patch_size=size["patch_size"], num_layers=size["layers"], num_heads=size["heads"],
        hidden_dim=size["width"], mlp_dim=size["mlp_width"], num_classes=CLASSES)


def same(name):
    return name


def disturb(model):
    """Leaves no weight and no running statistic at a value that a mistake could hide behind."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if not tensor.is_floating_point():
                continue
            noise = torch.empty_like(tensor).normal_(0, 0.02, generator=generator)
            tensor.add_(noise.abs() if "running_var" in name else noise)


def forward(spec, model, inputs, folder, rename=same):
    """What `muster-trainer forward` gives for the model's weights."""
    paths = {name: os.path.join(folder, name) for name in ("spec.json", "weights", "inputs", "out")}
    with open(paths["spec.json"], "w") as file:
        json.dump(resolved_spec({"model": spec, "data": {"synthetic": {"samples": 10, "shape": SHAPE, "classes": CLASSES}},
                                 "batch_size": 1, "steps": 1,
                                 "optimizer": {"name": "sgd", "lr": 0.1}}, ranks=1), file)
    save_file({rename(name): tensor.contiguous() for name, tensor in model.state_dict().items()}, paths["weights"])
    save_file({"inputs": inputs}, paths["inputs"])
    subprocess.run([TRAINER, "forward", "--spec", paths["spec.json"], "--weights", paths["weights"], "--inputs",
                    paths["inputs"], "--classes", str(CLASSES), "--out", paths["out"]], check=True)
    return load_file(paths["out"])


def train_muster(spec, optimizer, folder):
    """Returns the loss of each step and the folders of the checkpoints by step."""
    spec = resolved_spec({
        "model": spec, "data": {"synthetic": {"samples": SAMPLES, "shape": SHAPE, "classes": CLASSES}},
        "batch_size": BATCH, "steps": 2 * STEPS, "seed": SEED, "report_every_steps": 1,
        "optimizer": {"name": optimizer, "lr": LR, "weight_decay": 0.1, "momentum": 0.9, "nesterov": True,
                      "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}}, ranks=1)
    spec["checkpoint"]["every_steps"] = STEPS
    gang = Gang(TRAINER, spec, folder, ranks=1).run(600)
    losses = {step: values["loss"] for _, step, values in gang.metrics[0] if "loss" in values}
    return losses, {line["step"]: line["path"] for line in gang.committed}


def load(folder, model, optimizer, names, rename):
    state = load_file(os.path.join(folder, "model.safetensors"))
    model.load_state_dict({name: state.pop(rename(name)) for name in model.state_dict()})
    if state:
        raise RuntimeError(f"the reference has no place for {sorted(state)}")
    saved = load_file(os.path.join(folder, "optimizer.safetensors"))
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        moments = {theirs: saved[f"{ours}.{rename(name)}"].clone() for theirs, ours in names.items()}
        if "step" in saved:
            moments["step"] = saved["step"].clone()
        optimizer.state[parameter] = moments


def classify(model, inputs, targets, step):
    return F.cross_entropy(model(inputs), targets)


def reconstruct(model, inputs, targets, step):
    patches = (SHAPE[1] // MAE["patch_size"]) * (SHAPE[2] // MAE["patch_size"])
    ids = muster_data.sample_ids(SAMPLES, BATCH, SEED, step, 0, 1)
    noise = muster_data.mae_noise(muster_data.mae_step_seed(SEED, step), ids, patches)
    return model(inputs, noise=torch.from_numpy(noise)).loss


class VisionAgainstReference(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.inputs = torch.randn(4, *SHAPE)

    def compare_outputs(self, spec, model):
        disturb(model)
        model.eval()
        with tempfile.TemporaryDirectory(prefix="muster-peer-") as folder, torch.no_grad():
            ours = forward(spec, model, self.inputs, folder)["values"]
            theirs = model(self.inputs)
        print(f"{self.id()}: largest difference {(ours - theirs).abs().max().item():.2g}"
              f" of values up to {theirs.abs().max().item():.3g}", file=sys.stderr)
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)

    def compare_training(self, spec, model, optimizer_name, loss_of=classify, rename=same):
        with tempfile.TemporaryDirectory(prefix="muster-peer-") as folder:
            losses, checkpoints = train_muster(spec, optimizer_name, folder)
            make, names = OPTIMIZERS[optimizer_name]
            optimizer = make([p for p in model.parameters() if p.requires_grad])
            load(checkpoints[STEPS], model, optimizer, names, rename)
        model.train()
        inputs, targets = muster_data.synthetic_train(SAMPLES, SHAPE, CLASSES, SEED)
        largest = 0
        for step in range(STEPS, 2 * STEPS):
            ids = muster_data.sample_ids(SAMPLES, BATCH, SEED, step, 0, 1)
            optimizer.zero_grad()
            loss = loss_of(model, torch.from_numpy(inputs[ids]), torch.from_numpy(targets[ids]), step)
            loss.backward()
            optimizer.step()
            largest = max(largest, abs(losses[step + 1] / loss.item() - 1))
            self.assertLessEqual(abs(losses[step + 1] / loss.item() - 1), 1e-3, f"step {step + 1}")
        print(f"{self.id()}: ten losses within {largest:.2g} relative, the last {loss.item():.6g}", file=sys.stderr)

    def test_resnet18_gives_torchvisions_outputs(self):
        self.compare_outputs(resnet_spec("resnet18"), torchvision.models.resnet18(num_classes=CLASSES))

    def test_resnet34_gives_torchvisions_outputs(self):
        self.compare_outputs(resnet_spec("resnet34"), torchvision.models.resnet34(num_classes=CLASSES))

    def test_resnet50_gives_torchvisions_outputs(self):
        self.compare_outputs(resnet_spec("resnet50"), torchvision.models.resnet50(num_classes=CLASSES))

    def test_resnet101_gives_torchvisions_outputs(self):
        self.compare_outputs(resnet_spec("resnet101"), torchvision.models.resnet101(num_classes=CLASSES))

    def test_vit_b_16_gives_torchvisions_outputs(self):
        self.compare_outputs(vit_spec(VIT_B_16), torchvision.models.vit_b_16(image_size=SHAPE[1], num_classes=CLASSES))

    def test_vit_s_16_gives_torchvisions_outputs(self):
        self.compare_outputs(vit_spec(VIT_S_16), vit(VIT_S_16))

    def test_vit_l_16_gives_torchvisions_outputs(self):
        self.compare_outputs(vit_spec(VIT_L_16), torchvision.models.vit_l_16(image_size=SHAPE[1], num_classes=CLASSES))

    def test_vit_tiny_gives_torchvisions_outputs(self):
        self.compare_outputs(vit_spec(VIT_TINY), vit(VIT_TINY))

    def test_mae_gives_hugging_faces_outputs(self):
        self.compare_reconstructions(MAE, ViTMAEConfig(**MAE_CONFIG))

    def test_mae_base_gives_hugging_faces_outputs(self):
        self.compare_reconstructions(MAE_BASE, ViTMAEConfig(image_size=SHAPE[1], norm_pix_loss=True))

    def compare_reconstructions(self, spec, config):
        model = ViTMAEForPreTraining(config)
        disturb(model)
        model.eval()
        patches = (SHAPE[1] // spec["patch_size"]) ** 2
        noise = torch.from_numpy(muster_data.mae_noise(MAE_EVALUATION_SEED, range(4), patches))
        with tempfile.TemporaryDirectory(prefix="muster-peer-") as folder, torch.no_grad():
            ours = forward({"mae": spec}, model, self.inputs, folder, published)
            theirs = model(self.inputs, noise=noise)
        print(f"{self.id()}: largest difference {(ours['values'] - theirs.logits).abs().max().item():.2g}"
              f" of values up to {theirs.logits.abs().max().item():.3g}", file=sys.stderr)
        torch.testing.assert_close(ours["mask"], theirs.mask, rtol=0, atol=0)
        torch.testing.assert_close(ours["values"], theirs.logits, rtol=1e-4, atol=1e-4)

    def test_mae_checkpoints_load_into_hugging_face_by_their_published_names(self):
        with tempfile.TemporaryDirectory(prefix="muster-peer-") as folder:
            _, checkpoints = train_muster({"mae": MAE}, "adamw", folder)
            place = checkpoints[2 * STEPS]
            ViTMAEConfig(**MAE_CONFIG).save_pretrained(place)
            model, report = ViTMAEForPreTraining.from_pretrained(place, output_loading_info=True)
            ours = load_file(os.path.join(place, "model.safetensors"))
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            self.assertFalse(report[kind], kind)
        for name, tensor in model.state_dict().items():
            self.assertTrue(torch.equal(tensor, ours[published(name)]), name)
        # The fixed positions are the reference's. It has row before column and then swaps the halves, as the published
        # weights want; transformers 5.23 leaves those of a freshly made model at zero.
        side = SHAPE[1] // MAE["patch_size"]
        for name in ("vit.embeddings.position_embeddings", "decoder.decoder_pos_embed"):
            width = ours[name].shape[-1]
            fixed = build_2d_sinusoidal_position_embedding(side, side, width, cls_token=True).roll(width // 2, -1)
            torch.testing.assert_close(ours[name][0], fixed, rtol=0, atol=1e-6)

    def test_resnet18_trains_like_torchvisions(self):
        self.compare_training(resnet_spec("resnet18"), torchvision.models.resnet18(num_classes=CLASSES), "sgd")

    def test_resnet34_trains_like_torchvisions(self):
        self.compare_training(resnet_spec("resnet34"), torchvision.models.resnet34(num_classes=CLASSES), "sgd")

    def test_resnet50_trains_like_torchvisions(self):
        self.compare_training(resnet_spec("resnet50"), torchvision.models.resnet50(num_classes=CLASSES), "sgd")

    def test_resnet101_trains_like_torchvisions(self):
        self.compare_training(resnet_spec("resnet101"), torchvision.models.resnet101(num_classes=CLASSES), "sgd")

    def test_vit_b_16_trains_like_torchvisions(self):
        model = torchvision.models.vit_b_16(image_size=SHAPE[1], num_classes=CLASSES)
        self.compare_training(vit_spec(VIT_B_16), model, "sgd")

    def test_vit_tiny_trains_like_torchvisions(self):
        self.compare_training(vit_spec(VIT_TINY), vit(VIT_TINY), "adamw")

    def test_mae_trains_like_hugging_faces(self):
        model = ViTMAEForPreTraining(ViTMAEConfig(**MAE_CONFIG))
        self.compare_training({"mae": MAE}, model, "adamw", reconstruct, published)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main(warnings="ignore")  # of sockets that the process's end closes
