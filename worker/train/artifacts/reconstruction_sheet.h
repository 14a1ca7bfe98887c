// What a masked autoencoder makes of some validation pictures, as a PNG every so many steps.
//
// One column a picture; from top to bottom the original, what the model was shown (hidden patches
// grey), and the original with the hidden patches as predicted. The same pictures and the same
// patches each time, so that sheets can be laid side by side.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "worker/data/loader.h"
#include "worker/models/base/model.h"
#include "worker/train/artifacts/artifact.h"
#include "worker/train/objective/reconstruction.h"

namespace muster::worker {

inline constexpr int64_t kSheetPictures = 8;
inline constexpr int64_t kSheetMargin = 2;        // white pixels round each picture
inline constexpr int64_t kSheetPictureSide = 64;  // smaller pictures are enlarged to about this

struct ReconstructionSheetConfig {
  std::string folder;   // made when it is not there
  int64_t every_steps;  // above 0
  ReconstructionConfig reconstruction;
};

// Writes `<folder>/reconstructions-<step, 8 digits>.png`. Does nothing when the validation set is
// empty. `fs`, `model` and `loader` must outlive it.
absl::StatusOr<std::unique_ptr<Artifact>> MakeReconstructionSheets(
    FileSystem& fs, Model& model, const Loader& loader, at::Device device,
    ReconstructionSheetConfig config);

// The sheet's pixels, uint8 [height, width, 3]: originals and reconstructions float [N, C, H, W],
// hidden bool [N, C, H, W]. One channel is shown grey, three as colours; of others the first. The
// darkest and the brightest value of the originals become black and white.
at::Tensor DrawSheet(const at::Tensor& originals, const at::Tensor& hidden,
                     const at::Tensor& reconstructions);

}  // namespace muster::worker
