#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/base/dataset.h"
#include "worker/data/base/held_out.h"
#include "worker/data/base/npy_file.h"
#include "worker/data/images/pixels.h"

namespace muster::worker {
namespace {

absl::Status BadArray(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

// Inputs and targets of one split as the model wants them; nothing when both files are missing.
absl::StatusOr<std::optional<Dataset::Part>> ReadPart(FileSystem& fs, const std::string& folder,
                                                      Split split, BlockHasher& hasher) {
  const std::string start = absl::StrCat(folder, "/", SplitName(split));
  const std::string inputs_path = start + "_inputs.npy", targets_path = start + "_targets.npy";
  // Only those of training must be there.
  const auto exists = [&](const std::string& path) {
    return split == Split::kTrain ? fs.Exists(path) : ExistsIfAllowed(fs, path);
  };
  MUSTER_ASSIGN_OR_RETURN(const bool has_inputs, exists(inputs_path));
  MUSTER_ASSIGN_OR_RETURN(const bool has_targets, exists(targets_path));
  if (!has_inputs && !has_targets) return std::optional<Dataset::Part>();
  if (!has_inputs || !has_targets) {
    return absl::NotFoundError(absl::StrCat(has_inputs ? targets_path : inputs_path,
                                            " is not there, but its other half is"));
  }
  Dataset::Part part;
  MUSTER_ASSIGN_OR_RETURN(part.inputs, ReadNpy(fs, inputs_path, kMaxNumpyBytes, hasher));
  MUSTER_ASSIGN_OR_RETURN(part.targets, ReadNpy(fs, targets_path, kMaxNumpyBytes, hasher));
  if (part.inputs.dim() != 2 && part.inputs.dim() != 4)
    return BadArray(inputs_path,
                    "must have the shape (n, features) or (n, channels, height, width)");
  if (part.inputs.scalar_type() != at::kByte) {
    if (!part.inputs.is_floating_point())
      return BadArray(inputs_path, "must hold uint8, float16, float32 or float64");
    part.inputs = part.inputs.to(at::kFloat);
  }
  const bool regress = part.targets.is_floating_point();
  if (part.targets.dim() != 1 && !(regress && part.targets.dim() == 2))
    return BadArray(targets_path, "must have the shape (n,), or (n, outputs) of floats to regress");
  if (part.targets.size(0) != part.inputs.size(0)) {
    return BadArray(targets_path, absl::StrCat("has ", part.targets.size(0), " targets for ",
                                               part.inputs.size(0), " inputs"));
  }
  if (part.inputs.size(0) == 0) return BadArray(inputs_path, "holds no sample");
  part.targets = part.targets.to(regress ? at::kFloat : at::kLong);
  if (regress && part.targets.dim() == 1) part.targets = part.targets.unsqueeze(1);
  if (!regress && part.targets.min().item<int64_t>() < 0)
    return BadArray(targets_path, "has a class below 0");
  return std::optional<Dataset::Part>(std::move(part));
}

absl::StatusOr<PixelScale> ScaleFor(const NumpyConfig& config, const Dataset::Part& train) {
  const int64_t channels = train.inputs.size(1);
  const bool bytes = train.inputs.scalar_type() == at::kByte;
  if (config.mean.empty() && config.std.empty()) {
    if (!bytes) return PixelScale();
    const std::vector<float> halves(static_cast<size_t>(channels), 0.5f);
    return PixelScale{halves, halves};
  }
  if (static_cast<int64_t>(config.mean.size()) != channels ||
      static_cast<int64_t>(config.std.size()) != channels) {
    return BadArray(config.path, absl::StrCat("mean and std must have ", channels,
                                              " numbers, one for each channel"));
  }
  return PixelScale{config.mean, config.std};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> ReadNumpy(FileSystem& fs, const NumpyConfig& config) {
  BlockHasher hasher;
  std::array<Dataset::Part, 3> parts;
  std::array<bool, 3> given = {true, true, true};
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    MUSTER_ASSIGN_OR_RETURN(std::optional<Dataset::Part> part,
                            ReadPart(fs, config.path, split, hasher));
    const size_t index = static_cast<size_t>(split);
    given[index] = part.has_value();
    if (part.has_value()) {
      parts[index] = *std::move(part);
    } else if (split == Split::kTrain) {
      return absl::NotFoundError(
          absl::StrCat(config.path,
                       "/train_inputs.npy and train_targets.npy are not there: save them with "
                       "numpy.save"));
    }
  }
  const at::Tensor& train_targets = parts[0].targets;
  const bool regress = train_targets.is_floating_point();
  int64_t classes = regress ? train_targets.size(1) : train_targets.max().item<int64_t>() + 1;

  HoldOutMissing(parts, given);
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string name = absl::StrCat(config.path, ": the ", SplitName(Split(i)), " set ");
    const Dataset::Part& part = parts[i];
    if (part.inputs.size(0) == 0) {
      return absl::InvalidArgumentError(
          name + "would be empty: give it files of its own, or more training samples");
    }
    if (part.inputs.sizes().slice(1) != parts[0].inputs.sizes().slice(1) ||
        part.inputs.scalar_type() != parts[0].inputs.scalar_type() ||
        part.targets.scalar_type() != parts[0].targets.scalar_type() ||
        (regress && part.targets.size(1) != classes)) {
      return absl::InvalidArgumentError(name + "has another shape or type than the training set");
    }
    if (!regress) classes = std::max(classes, part.targets.max().item<int64_t>() + 1);
  }
  MUSTER_ASSIGN_OR_RETURN(PixelScale scale, ScaleFor(config, parts[0]));
  if (!scale.mean.empty() && parts[0].inputs.is_floating_point()) {
    for (Dataset::Part& part : parts)
      SamplesToInputs(scale, part.inputs.mutable_data_ptr<float>(),
                      absl::MakeConstSpan(part.inputs.sizes().data(), part.inputs.sizes().size()));
  }
  return std::make_unique<InMemoryDataset>(
      std::move(parts), classes, absl::StrCat("numpy-v1:", HashToHex(hasher.Finish().whole)),
      std::move(scale));
}

}  // namespace muster::worker
