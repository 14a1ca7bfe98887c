// Pictures as rows of square patches, row by row from the upper left corner.
//
// Used by the models that read pictures so, by their loss, and by the sheets that show them. Throws
// what torch throws.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace muster::worker {

// INVALID_ARGUMENT, naming the model, when samples of `shape` are not [channels, height, width] or
// do not part into whole patches.
absl::Status CheckPatches(const std::string& model, const std::vector<int64_t>& shape,
                          int64_t patch_size);

// Of one sample; both require what CheckPatches checks.
int64_t PatchCount(const std::vector<int64_t>& shape, int64_t patch_size);

// [B, C, H, W] -> [B, P, patch_size * patch_size * C]; within a patch row, column, then channel, as
// Hugging Face's ViTMAE has it.
at::Tensor ToPatches(const at::Tensor& pictures, int64_t patch_size);
// The way back, to pictures like `like` [B, C, H, W].
at::Tensor FromPatches(const at::Tensor& patches, const at::Tensor& like, int64_t patch_size);

// One linear layer on each patch, written as a convolution: weight [D, C, patch, patch], bias [D];
// [B, C, H, W] -> [B, P, D].
at::Tensor EmbedPatches(const at::Tensor& pictures, const at::Tensor& weight,
                        const at::Tensor& bias);

}  // namespace muster::worker
