#!/usr/bin/env python3
"""Self-supervised training for real: a masked autoencoder sees the handwritten digits, and its encoder helps to read them.

Runs the real muster-trainer on data/digits (scripts/setup brings it; it is an error when it is not there): pre-training, then
fine-tuning of a Vision Transformer with `train.weights`, against the same training from scratch. Then both again with every
block computed twice (`train.memory.checkpoint_blocks`): the same weights to the bit.
"""
import os
import sys
import tempfile
import unittest

ROOT = os.environ.get("MUSTER_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ.get("MUSTER_BIN_DIR", os.path.join(ROOT, "build/release/bin"))
DIGITS = os.path.join(ROOT, "data/digits")
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

from muster_gang import Gang, resolved_spec  # noqa: E402

ENCODER = {"patch_size": 4, "layers": 4, "heads": 4, "width": 64, "mlp_width": 256}
MAE = {"mae": dict(ENCODER, decoder_layers=2, decoder_heads=4, decoder_width=32, decoder_mlp_width=128, mask_ratio=0.75,
                   norm_pix_loss=False)}
VIT = {"vit": dict(ENCODER, dropout=0.1, attention_dropout=0.0)}


def train(folder, model, epochs, lr, **settings):
    """Returns (results, path of the last checkpoint, the log)."""
    spec = resolved_spec({
        "model": model, "data": {"digits": {"path": DIGITS, "image_size": 16}}, "batch_size": 64, "epochs": epochs, "seed": 1,
        "clip_norm": 1.0, "validate_every_epochs": 0,
        "optimizer": {"name": "adamw", "lr": lr, "weight_decay": 0.05, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8},
        "schedule": {"name": "cosine", "warmup_steps": 20, "final_fraction": 0.0, "start_fraction": 0.0}, **settings}, ranks=1)
    gang = Gang(os.path.join(BIN, "muster-trainer"), spec, folder, ranks=1).run(400)
    return gang.results[0]["results"], gang.committed[-1]["path"], gang.log()


class MaeOnDigits(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="muster-peer-")
        self.addCleanup(place.cleanup)
        self.folder = place.name

    def run_in(self, name, *arguments, **settings):
        return train(os.path.join(self.folder, name), *arguments, **settings)

    def test_a_pretrained_encoder_reads_digits_better_than_a_fresh_one(self):
        seen, weights, _ = self.run_in("pretrain", MAE, 40, 2e-3)
        tuned, _, log = self.run_in("tune", VIT, 4, 1e-3, weights={"path": weights})
        fresh, _, _ = self.run_in("fresh", VIT, 4, 1e-3)
        print(f"reconstruction loss {seen['test_loss']:.3f}; test accuracy {tuned['test_accuracy']:.3f} fine-tuned,"
              f" {fresh['test_accuracy']:.3f} from scratch", file=sys.stderr)
        # The pixels' own variance is about 0.6: that much a model errs that always predicts the mean.
        self.assertLess(seen["test_loss"], 0.3)
        self.assertIn("heads.head.weight", log)  # said to start fresh
        self.assertNotIn("test_accuracy", seen, "nothing is right or wrong about a picture")
        self.assertGreater(tuned["test_accuracy"], fresh["test_accuracy"] + 0.05)

    def test_blocks_computed_again_give_the_same_weights(self):
        for name, model in (("mae", MAE), ("vit", VIT)):
            states = []
            for again in (False, True):
                _, path, _ = self.run_in(f"{name}-{again}", model, 0.5, 1e-3, memory={"checkpoint_blocks": again})
                with open(os.path.join(path, "model.safetensors"), "rb") as file:
                    states.append(file.read())
            self.assertEqual(states[0], states[1], name)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
