// A sample of a training step as the model was given it, bit for bit: found by the order of
// training, read, decoded, augmented, scaled, and mixed with its partner, without torch and without
// the other samples of its batch.
//
// Used by `muster-data show --job`. Does what Loader does (worker/data/loader.h); a test lays one
// beside the other. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/fs/file_system.h"
#include "trainer_spec/job_spec.h"
#include "worker/data/augment/augment.h"
#include "worker/data/base/pixel_scale.h"
#include "worker/data/images/compressed_picture.h"
#include "worker/data/index/sample_index.h"
#include "worker/data/index/storage_order.h"
#include "worker/data/order/sampler.h"
#include "worker/data_tool/base/open_data.h"

namespace muster::worker {

// One place of a batch before it is mixed.
struct MadeSample {
  uint64_t place = 0;  // in the global batch
  size_t source = 0;   // of a mixture
  EpochPlace stands;   // in the order of training
  StoredPlace stored;  // the sample that was taken
  PicturePlan plan;
  std::vector<float> inputs;  // [channels, size, size]
  // Of the samples before it that are broken, why: it stands in for the first of them.
  std::vector<std::string> stands_in_for;
};

struct RecreatedSample {
  MadeSample own;
  // With mixup or cutmix, unless it is the last of an odd number.
  std::optional<MadeSample> partner;
  PairMix mix;
  std::vector<float> inputs;  // [channels, size, size], mixed: what the model is given
};

class SampleRecreation {
 public:
  // For train.data.images, and mixtures of them; UNIMPLEMENTED for other data. `train` is the index
  // of the training set of each source, and must outlive this, as must `data`. INVALID_ARGUMENT
  // where a set is empty.
  static absl::StatusOr<std::unique_ptr<SampleRecreation>> Create(
      FileSystem& data, std::vector<const SampleIndex*> train, const trainer_spec::Train& spec);

  // OUT_OF_RANGE for a step behind the run's end or a place outside of its batch; else the errors
  // of a sample that cannot be read or decoded, where the job lets none stand in.
  absl::StatusOr<RecreatedSample> Recreate(uint64_t step, uint64_t place) const;

  int64_t size() const { return size_; }
  int64_t channels() const { return channels_; }
  const PixelScale& pixels() const { return pixels_; }

 private:
  SampleRecreation(FileSystem& data, std::vector<const SampleIndex*> train,
                   std::vector<StorageOrder> storage, const trainer_spec::Train& spec,
                   const trainer_spec::Images& images);
  absl::StatusOr<MadeSample> Make(uint64_t step, uint64_t place) const;
  absl::Status MakeOf(absl::string_view bytes, MadeSample& made) const;
  struct InSource {
    size_t source = 0;
    uint64_t id = 0;
  };
  InSource InSourceOf(uint64_t number) const;
  uint64_t NumberAt(uint64_t step, uint64_t place) const;

  FileSystem& data_;
  const std::vector<const SampleIndex*> train_;
  const std::vector<StorageOrder> storage_;  // of each source, with a window
  const uint64_t subset_;                    // 0: all samples are used
  const uint64_t samples_;                   // of those that the job uses
  const int64_t size_;
  const int64_t channels_;
  const uint64_t broken_limit_;
  const PixelScale pixels_;
  const InputMaker inputs_;
  const PictureDecoding decoding_;
  const Augmenter augmenter_;
  const Sampler sampler_;
};

}  // namespace muster::worker
