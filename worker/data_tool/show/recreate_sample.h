// A sample of a training step as the model was given it, bit for bit: found by the order of
// training, read, decoded, augmented, scaled, and mixed with its partner, without torch and without
// the other samples of its batch.
//
// Used by `muster-data show --job`. Does what Loader does (worker/data/loader.h); a test lays one
// beside the other. Any thread.
#pragma once

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
#include "worker/data/sampler.h"
#include "worker/data_tool/base/open_data.h"

namespace muster::worker {

// One place of a batch before it is mixed.
struct MadeSample {
  uint64_t place = 0;  // in the global batch
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
  // For train.data.images; UNIMPLEMENTED for other data. `train` is the index of the training set,
  // and must outlive this, as must `data`. INVALID_ARGUMENT where the set is empty.
  static absl::StatusOr<std::unique_ptr<SampleRecreation>> Create(FileSystem& data,
                                                                  const SampleIndex& train,
                                                                  const trainer_spec::Train& spec);

  // OUT_OF_RANGE for a step behind the run's end or a place outside of its batch; else the errors
  // of a sample that cannot be read or decoded, where the job lets none stand in.
  absl::StatusOr<RecreatedSample> Recreate(uint64_t step, uint64_t place) const;

  int64_t size() const { return size_; }
  int64_t channels() const { return channels_; }
  const PixelScale& pixels() const { return pixels_; }

 private:
  SampleRecreation(FileSystem& data, const SampleIndex& train, const trainer_spec::Train& spec);
  absl::StatusOr<MadeSample> Make(uint64_t step, uint64_t place) const;
  absl::Status MakeOf(absl::string_view bytes, MadeSample& made) const;
  uint64_t IdOf(uint64_t number) const;

  FileSystem& data_;
  const SampleIndex& train_;
  const uint64_t samples_;  // of those that the job uses
  const int64_t size_;
  const int64_t channels_;
  const uint64_t broken_limit_;
  const PixelScale pixels_;
  const PictureDecoding decoding_;
  const Augmenter augmenter_;
  const Sampler sampler_;
};

}  // namespace muster::worker
