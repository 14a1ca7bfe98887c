#include <ATen/ops/empty.h>

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/rng.h"
#include "worker/data/base/dataset.h"

namespace muster::worker {
namespace {

// Purpose numbers of DeriveSeed: part of the data, never changed.
constexpr uint64_t kInputPurpose = 0x696e707574;     // "input"
constexpr uint64_t kTargetPurpose = 0x746172676574;  // "target"
constexpr int64_t kHeldOutShare = 10;

// Uniform in [-sqrt(3), sqrt(3)): mean 0 and variance 1.
float UniformOf(uint32_t bits) {
  constexpr float kScale = 2.0f * 1.7320508f / 16777216.0f;
  return (static_cast<float>(bits >> 8) - 8388608.0f) * kScale;
}

Dataset::Part MakePart(const SyntheticConfig& config, Split split, int64_t samples) {
  std::vector<int64_t> sizes = {samples};
  sizes.insert(sizes.end(), config.shape.begin(), config.shape.end());
  Dataset::Part part{at::empty(sizes, at::kFloat), at::empty({samples}, at::kLong)};

  const uint64_t seed = DeriveSeed(config.seed, kInputPurpose, static_cast<uint64_t>(split));
  float* inputs = part.inputs.mutable_data_ptr<float>();
  const int64_t elements = part.inputs.numel();
  for (int64_t i = 0; i < elements; i += 2) {
    const uint64_t bits = SplitMix64(seed + static_cast<uint64_t>(i));
    inputs[i] = UniformOf(static_cast<uint32_t>(bits));
    if (i + 1 < elements) inputs[i + 1] = UniformOf(static_cast<uint32_t>(bits >> 32));
  }
  int64_t* targets = part.targets.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < samples; ++i) {
    const uint64_t bits = DeriveSeed(config.seed, kTargetPurpose + static_cast<uint64_t>(split),
                                     static_cast<uint64_t>(i));
    targets[i] = static_cast<int64_t>(bits % static_cast<uint64_t>(config.classes));
  }
  return part;
}

// Pictures may be augmented like any: their values are taken for pixels.
PixelScale PixelsOf(const SyntheticConfig& config) {
  if (config.shape.size() != 3) return {};
  const size_t channels = static_cast<size_t>(config.shape[0]);
  return {std::vector<float>(channels, 0.5f), std::vector<float>(channels, 0.5f / std::sqrt(3.0f))};
}

absl::Status CheckConfig(const SyntheticConfig& config) {
  if (config.samples < 1 || config.classes < 1 || config.shape.empty()) {
    return absl::InvalidArgumentError("synthetic data needs at least 1 sample, 1 class and 1 axis");
  }
  // Training set and the two tenths.
  int64_t bytes = sizeof(float);
  for (const int64_t axis : config.shape) {
    if (axis < 1 || __builtin_mul_overflow(bytes, axis, &bytes)) bytes = INT64_MAX;
    if (axis < 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "synthetic data: shape [", absl::StrJoin(config.shape, ", "), "] has an axis below 1"));
    }
    if (bytes > kMaxSyntheticBytes) break;
  }
  if (bytes > kMaxSyntheticBytes || config.samples > kMaxSyntheticBytes / bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "synthetic data: ", config.samples, " samples of shape [",
        absl::StrJoin(config.shape, ", "), "] need more than ", kMaxSyntheticBytes, " bytes"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<InMemoryDataset>> MakeSynthetic(const SyntheticConfig& config) {
  if (absl::Status status = CheckConfig(config); !status.ok()) return status;
  const int64_t held_out = std::max<int64_t>(1, config.samples / kHeldOutShare);
  return std::make_unique<InMemoryDataset>(
      std::array<Dataset::Part, 3>{MakePart(config, Split::kTrain, config.samples),
                                   MakePart(config, Split::kValidation, held_out),
                                   MakePart(config, Split::kTest, held_out)},
      config.classes,
      absl::StrCat("synthetic-v1:", config.samples, "x", absl::StrJoin(config.shape, "x"), ":",
                   config.classes, ":", config.seed),
      PixelsOf(config));
}

}  // namespace muster::worker
