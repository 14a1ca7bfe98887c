// The masked autoencoder (He et al. 2022): a Vision Transformer sees a part of the patches of a
// picture, and a small decoder predicts the pixels of all of them.
#pragma once

#include <cstdint>
#include <memory>

#include "worker/models/base/model.h"

namespace muster::worker {

struct MaeConfig {
  int64_t patch_size = 16;  // divides the pictures' height and width
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t width = 768;  // a multiple of heads and of 4
  int64_t mlp_width = 3072;
  int64_t decoder_layers = 8;
  int64_t decoder_heads = 16;
  int64_t decoder_width = 512;  // a multiple of decoder_heads and of 4
  int64_t decoder_mlp_width = 2048;
  double mask_ratio = 0.75;  // of the patches that are hidden
};

// Which patches of a sample are hidden in evaluation follows from this seed and its id alone: so
// the losses of two evaluations differ by the weights, whatever batches and ranks made them.
inline constexpr uint64_t kMaeEvaluationSeed = 0x6D6165;

// Hugging Face's ViTMAEForPreTraining, under the names of its published files (facebook/vit-mae-*);
// fixed sine and cosine positions, which are buffers here. Initial weights are those of the paper.
//
// Forward: values [B, patches, patch_size^2 x channels], mask [B, patches] with 1 for hidden. Seen
// are the patches with the least noise. Patch p of a sample has the noise SplitMix64(s ^
// SplitMix64(p)) >> 11 in units of 2^-53, where s = DeriveSeed(seed, id): `seed` that of Samples in
// training and kMaeEvaluationSeed in evaluation. No generator of torch's is touched.
//
// INVALID_ARGUMENT when a sample is not [channels, height, width], does not part into whole
// patches, when no patch would be hidden or none be seen, or when a width is no multiple.
absl::StatusOr<std::unique_ptr<Model>> MakeMae(const MaeConfig& config,
                                               const ModelContext& context);

}  // namespace muster::worker
