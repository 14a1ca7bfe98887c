// What there is to learn from: three splits of samples of one shape, each with what is to be said
// of it. Where the samples lie is a dataset's own affair: it gives those that are asked for by id.
// Immutable after its making, so any thread may read.
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

// How inputs follow from pixels: input = (pixel - mean) / std for each channel, pixels from 0 to 1.
struct PixelScale {
  std::vector<float> mean, std;  // one for each channel; empty: the inputs are not pixels
};

class Dataset {
 public:
  struct Part {
    // float32 [n, ...shape], or uint8 pixels, 255 for 1; tokens int64 [n, T].
    at::Tensor inputs;
    // int64 [n], each in [0, classes); for tokens [n, T]: what follows each; or float32 [n,
    // classes] to regress.
    at::Tensor targets;
  };

  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  virtual int64_t size(Split split) const = 0;
  // The samples of these ids, each in [0, size), in their order.
  virtual Part Gather(Split split, const std::vector<int64_t>& ids) const = 0;
  // Samples [begin, begin + count); may share memory with the dataset.
  virtual Part Range(Split split, int64_t begin, int64_t count) const = 0;

  // What it holds in memory.
  virtual int64_t bytes() const = 0;

  // Of one sample: [F] or [C, H, W]; [T] for tokens.
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t classes() const { return classes_; }  // of tokens: the vocabulary
  // Of each class, in their order; empty: the data does not say.
  const std::vector<std::string>& class_names() const { return class_names_; }
  // Names the content and the way it was prepared.
  const std::string& fingerprint() const { return fingerprint_; }
  const PixelScale& pixels() const { return pixels_; }

 protected:
  Dataset(std::vector<int64_t> shape, int64_t classes, std::string fingerprint,
          PixelScale pixels = {}, std::vector<std::string> class_names = {});

 private:
  const std::vector<int64_t> shape_;
  const int64_t classes_;
  const std::string fingerprint_;
  const PixelScale pixels_;
  const std::vector<std::string> class_names_;
};

// Samples as whole tensors.
class InMemoryDataset final : public Dataset {
 public:
  // Requires parts of one shape and type, with `pixels` when they are uint8.
  InMemoryDataset(std::array<Part, 3> parts, int64_t classes, std::string fingerprint,
                  PixelScale pixels = {}, std::vector<std::string> class_names = {});

  int64_t size(Split split) const override;
  Part Gather(Split split, const std::vector<int64_t>& ids) const override;
  Part Range(Split split, int64_t begin, int64_t count) const override;
  int64_t bytes() const override;
  const Part& part(Split split) const { return parts_[static_cast<size_t>(split)]; }

 private:
  const std::array<Part, 3> parts_;
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
absl::StatusOr<std::unique_ptr<InMemoryDataset>> MakeSynthetic(const SyntheticConfig& config);

struct DigitsConfig {
  std::string path;         // the folder that holds digits.csv
  int64_t image_size = 16;  // 8, 16, 24 or 32
};

struct CifarConfig {
  std::string path;  // the folder that holds data_batch_1.bin (CIFAR-10) or train.bin (CIFAR-100)
};

// CIFAR-10 or CIFAR-100 in its binary version (Krizhevsky 2009): [3, 32, 32], normalised by its
// own means. A tenth of the training files, by SplitMix64 of the place, is for validation; the test
// file is the test set. NOT_FOUND when neither is there; INVALID_ARGUMENT naming the file that is
// no such file; else fs's codes.
absl::StatusOr<std::unique_ptr<Dataset>> ReadCifar(FileSystem& fs, const CifarConfig& config);

struct NumpyConfig {
  std::string path;              // the folder with train_inputs.npy and train_targets.npy
  std::vector<float> mean, std;  // for each channel; empty: 0.5 for bytes, none for floats
};

// Arrays of NumPy's .npy files: train_inputs.npy of uint8, float16, float32 or float64 with the
// samples along the first axis, train_targets.npy of whole numbers [n] (classes) or of floats [n]
// or [n, outputs] (to regress). validation_*.npy and test_*.npy likewise; what is missing is split
// off the training set, a tenth each by SplitMix64 of the place. NOT_FOUND, INVALID_ARGUMENT naming
// file and fault; RESOURCE_EXHAUSTED above kMaxNumpyBytes; else fs's codes.
inline constexpr int64_t kMaxNumpyBytes = int64_t{64} << 30;
absl::StatusOr<std::unique_ptr<Dataset>> ReadNumpy(FileSystem& fs, const NumpyConfig& config);

// The UCI digits: pixel v in 0..16 becomes (v/16 - 0.5)/0.5, enlarged by repetition to
// [1, image_size, image_size]. Row i goes by SplitMix64(i) mod 10: 0..6 train, 7 validation, 8..9
// test. NOT_FOUND when digits.csv is not there; INVALID_ARGUMENT naming file and line when it is
// not what scripts/fetch-digits brings; else fs's codes.
absl::StatusOr<std::unique_ptr<InMemoryDataset>> ReadDigits(FileSystem& fs,
                                                            const DigitsConfig& config);

}  // namespace muster::worker
