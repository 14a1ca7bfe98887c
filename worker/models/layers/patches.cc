#include "worker/models/layers/patches.h"

#include <ATen/ops/conv2d.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muster::worker {

absl::Status CheckPatches(const std::string& model, const std::vector<int64_t>& shape,
                          int64_t patch_size) {
  if (shape.size() != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat(model, " wants samples of shape [channels, height, width], but the data has [",
                     absl::StrJoin(shape, ", "), "]: choose `mlp`, or other data"));
  }
  if (patch_size < 1 || shape[1] % patch_size != 0 || shape[2] % patch_size != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        model, ": pictures of ", shape[1], " x ", shape[2], " do not part into patches of ",
        patch_size, " x ", patch_size, ": choose a patch_size that divides both"));
  }
  return absl::OkStatus();
}

int64_t PatchCount(const std::vector<int64_t>& shape, int64_t patch_size) {
  return (shape[1] / patch_size) * (shape[2] / patch_size);
}

at::Tensor ToPatches(const at::Tensor& pictures, int64_t patch_size) {
  const int64_t batch = pictures.size(0), channels = pictures.size(1);
  const int64_t rows = pictures.size(2) / patch_size, columns = pictures.size(3) / patch_size;
  return pictures.reshape({batch, channels, rows, patch_size, columns, patch_size})
      .permute({0, 2, 4, 3, 5, 1})
      .reshape({batch, rows * columns, patch_size * patch_size * channels});
}

at::Tensor FromPatches(const at::Tensor& patches, const at::Tensor& like, int64_t patch_size) {
  const int64_t rows = like.size(2) / patch_size, columns = like.size(3) / patch_size;
  return patches.reshape({like.size(0), rows, columns, patch_size, patch_size, like.size(1)})
      .permute({0, 5, 1, 3, 2, 4})
      .reshape(like.sizes());
}

at::Tensor EmbedPatches(const at::Tensor& pictures, const at::Tensor& weight,
                        const at::Tensor& bias) {
  const int64_t patch_size = weight.size(2);
  return at::conv2d(pictures, weight, bias, {patch_size, patch_size}).flatten(2).transpose(1, 2);
}

}  // namespace muster::worker
