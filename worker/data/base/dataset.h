// What there is to learn from: a source of samples of one shape, in three splits, and what is said
// of all of them. Immutable after its making, so any thread may read.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "worker/data/base/pixel_scale.h"
#include "worker/data/base/sample_source.h"

namespace muster::worker {

struct PictureDecoding;  // compressed_picture.h

// A sample's place in a batch: for so many bytes as its input and its target have there.
struct SampleSlot {
  void* input = nullptr;
  void* target = nullptr;
};

class Dataset : public SampleSource {
 public:
  // Samples as tensors.
  struct Part {
    // float32 [n, ...shape], or uint8 pixels, 255 for 1; tokens int64 [n, T].
    at::Tensor inputs;
    // int64 [n], each in [0, classes); for tokens [n, T]: what follows each; or float32 [n,
    // classes] to regress.
    at::Tensor targets;
  };

  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  // A sample's bytes as Part has them: copied, where its source stores them so.
  virtual void Decode(const StoredSample& sample, const SampleSlot& slot) const;

  // Null: inputs are stored as Part has them. Else they are compressed pictures of any sizes, which
  // only Transform makes into the shape.
  virtual const PictureDecoding* decoding() const { return nullptr; }

  // What samples are read by when they are asked for; null: they are in memory.
  virtual FileSystem* files() const { return nullptr; }
  // For who is leaving, and for who wonders why a read takes long (file_system.h).
  void CancelReads() const {
    if (files() != nullptr) files()->Cancel();
  }
  std::string Trouble() const { return files() == nullptr ? "" : files()->Trouble(); }

  // Names a sample for people: by its key and file, where it has them.
  virtual std::string NameOf(Split split, int64_t id) const;

  // The samples of these ids, each in [0, size), in their order. Requires samples in memory.
  Part Gather(Split split, const std::vector<int64_t>& ids) const;
  // Samples [begin, begin + count).
  Part Range(Split split, int64_t begin, int64_t count) const;

  // Of a Part, and of one sample's targets there.
  c10::ScalarType input_type() const { return types_.input; }
  c10::ScalarType target_type() const { return types_.target; }
  const std::vector<int64_t>& target_shape() const { return types_.target_shape; }

  // Of one sample: [F] or [C, H, W]; [T] for tokens.
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t classes() const { return classes_; }  // of tokens: the vocabulary
  // Of each class, in their order; empty: the data does not say.
  const std::vector<std::string>& class_names() const { return class_names_; }
  // Names the content and the way it was prepared.
  const std::string& fingerprint() const { return fingerprint_; }
  const PixelScale& pixels() const { return pixels_; }

 protected:
  struct Types {
    c10::ScalarType input = at::kFloat;
    c10::ScalarType target = at::kLong;
    std::vector<int64_t> target_shape = {};
  };
  Dataset(std::vector<int64_t> shape, Types types, int64_t classes, std::string fingerprint,
          PixelScale pixels = {}, std::vector<std::string> class_names = {});

 private:
  const std::vector<int64_t> shape_;
  const Types types_;
  const int64_t classes_;
  const std::string fingerprint_;
  const PixelScale pixels_;
  const std::vector<std::string> class_names_;
};

// The tensors of a batch, to be filled sample by sample.
class BatchSlots {
 public:
  // A tensor of any content.
  using MakeTensor = std::function<at::Tensor(const std::vector<int64_t>& sizes, c10::ScalarType)>;
  static at::Tensor NewTensor(const std::vector<int64_t>& sizes, c10::ScalarType type);

  // `input_type`: that of the inputs, where it is not as they are stored. Bytes of a dataset that
  // has them compressed lie as decoders write them: [samples, H, W, C], seen as [samples, C, H, W].
  BatchSlots(const Dataset& dataset, c10::ScalarType input_type, int64_t samples,
             const MakeTensor& make = NewTensor);

  // Requires a place in [0, samples).
  SampleSlot operator[](int64_t place) const {
    return {inputs_ + place * input_bytes_, targets_ + place * target_bytes_};
  }
  const Dataset::Part& part() const { return part_; }

 private:
  Dataset::Part part_;
  int64_t input_bytes_ = 0, target_bytes_ = 0;  // of one sample
  char* inputs_ = nullptr;
  char* targets_ = nullptr;
};

// Samples as whole tensors.
class InMemoryDataset final : public Dataset {
 public:
  // Requires parts of one shape and type, with `pixels` when they are uint8.
  InMemoryDataset(std::array<Part, 3> parts, int64_t classes, std::string fingerprint,
                  PixelScale pixels = {}, std::vector<std::string> class_names = {});

  int64_t size(Split split) const override;
  absl::StatusOr<StoredSample> Read(Split split, int64_t id, std::string& storage) const override;
  int64_t bytes() const override;
  const Part& part(Split split) const { return parts_[static_cast<size_t>(split)]; }

 private:
  // A tensor's samples, which lie one after the other.
  struct Rows {
    const char* data = nullptr;
    size_t bytes = 0;  // of one
    absl::string_view operator[](int64_t id) const {
      return {data + static_cast<size_t>(id) * bytes, bytes};
    }
  };
  static Rows RowsOf(const at::Tensor& tensor);

  const std::array<Part, 3> parts_;
  // Of each split: tensors tell it, too, but not as fast as a small sample is copied.
  std::array<Rows, 3> inputs_, targets_;
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

struct CsvSourceConfig {
  std::string path;                   // a file, or the folder that holds train.csv
  std::string target;                 // the column that is to be learnt
  std::vector<std::string> features;  // columns in their order; empty: all the others
  bool regress = false;               // the target is a number, not a class
  bool normalize = true;  // each feature to mean 0 and variance 1, both of the training set
};

// Numbers of a CSV file with a header: features [F] and a class, or a number to regress ([1]). Of a
// folder train.csv, and perhaps validation.csv and test.csv; a set that is missing is split off the
// training set, a tenth each by SplitMix64 of the place. Classes are those of the training set.
// NOT_FOUND, INVALID_ARGUMENT naming file, line and fault; else fs's codes.
absl::StatusOr<std::unique_ptr<Dataset>> ReadCsv(FileSystem& fs, const CsvSourceConfig& config);

// The UCI digits: pixel v in 0..16 becomes (v/16 - 0.5)/0.5, enlarged by repetition to
// [1, image_size, image_size]. Row i goes by SplitMix64(i) mod 10: 0..6 train, 7 validation, 8..9
// test. NOT_FOUND when digits.csv is not there; INVALID_ARGUMENT naming file and line when it is
// not what scripts/fetch-digits brings; else fs's codes.
absl::StatusOr<std::unique_ptr<InMemoryDataset>> ReadDigits(FileSystem& fs,
                                                            const DigitsConfig& config);

}  // namespace muster::worker
