// The objective of masked autoencoders: the pixels of the hidden patches (He et al. 2022).
//
// Used by the training step and the evaluation as an Objective, and by the sheets that show what a
// model makes of a picture. Stateless. Throws what torch throws.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "worker/train/objective/objective.h"

namespace muster::worker {

struct ReconstructionConfig {
  int64_t patch_size = 16;
  // The target of each patch is its pixels with their own mean 0 and deviation 1.
  bool norm_pix_loss = false;
};

// Of predicted patches [B, P, values] and their mask: the mean over hidden patches of the mean
// square error, as in Hugging Face's ViTMAEForPreTraining. Each sample hides equally many patches,
// so this is a mean over samples too. The targets are the batch's own inputs; nothing is right or
// wrong.
std::unique_ptr<Objective> MakeReconstruction(const ReconstructionConfig& config);

// The pictures that a masked autoencoder sees in its mind: what it predicted where patches were
// hidden, and the pictures' own pixels elsewhere. Like `pictures`, float [B, C, H, W].
at::Tensor Reconstruct(const ModelOutput& output, const at::Tensor& pictures,
                       const ReconstructionConfig& config);

}  // namespace muster::worker
