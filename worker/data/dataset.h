// What there is to learn from: three splits of samples with one shape and a class each. In memory
// by now. Immutable after its making, so any thread may read.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"

namespace muster::worker {

enum class Split { kTrain = 0, kValidation = 1, kTest = 2 };
const char* SplitName(Split split);

class Dataset {
 public:
  struct Part {
    at::Tensor inputs;   // float32 [n, ...shape]
    at::Tensor targets;  // int64 [n], each in [0, classes)
  };

  // Requires parts of one shape; `fingerprint` names the content and the way it was prepared.
  Dataset(std::array<Part, 3> parts, int64_t classes, std::string fingerprint);

  int64_t size(Split split) const;
  const std::vector<int64_t>& shape() const { return shape_; }  // of one sample: [F] or [C, H, W]
  int64_t classes() const { return classes_; }
  const std::string& fingerprint() const { return fingerprint_; }
  const Part& part(Split split) const { return parts_[static_cast<size_t>(split)]; }

 private:
  std::array<Part, 3> parts_;
  std::vector<int64_t> shape_;
  int64_t classes_;
  std::string fingerprint_;
};

struct SyntheticConfig {
  int64_t samples = 0;         // of the training set; validation and test have a tenth each
  std::vector<int64_t> shape;  // [features] or [channels, height, width]
  int64_t classes = 0;
  uint64_t seed = 0;
};

// Inputs uniform with mean 0 and variance 1, labels uniform; bit for bit the same for the same
// config. INVALID_ARGUMENT for sizes below 1 or above what fits kMaxSyntheticBytes.
inline constexpr int64_t kMaxSyntheticBytes = int64_t{16} << 30;
absl::StatusOr<std::unique_ptr<Dataset>> MakeSynthetic(const SyntheticConfig& config);

struct DigitsConfig {
  std::string path;         // the folder that holds digits.csv
  int64_t image_size = 16;  // 8, 16, 24 or 32
};

// The UCI digits: pixel v in 0..16 becomes (v/16 - 0.5)/0.5, enlarged by repetition to
// [1, image_size, image_size]. Row i goes by SplitMix64(i) mod 10: 0..6 train, 7 validation, 8..9
// test. NOT_FOUND when digits.csv is not there; INVALID_ARGUMENT naming file and line when it is
// not what scripts/fetch-digits brings; else fs's codes.
absl::StatusOr<std::unique_ptr<Dataset>> ReadDigits(FileSystem& fs, const DigitsConfig& config);

}  // namespace muster::worker
