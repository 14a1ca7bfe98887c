// How many samples a second this machine can make, stage by stage, as a training run makes them.
//
// Used by `muster-data bench`. Threads of its own, for as long as it is told.
#pragma once

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "worker/data/index/sample_index.h"

namespace muster::worker {

// kHeader reads the first 64 KiB of a sample; the others read it whole.
enum class FeedStage { kRead, kHeader, kDecode, kInputs };
inline constexpr std::array<FeedStage, 4> kFeedStages = {FeedStage::kRead, FeedStage::kHeader,
                                                         FeedStage::kDecode, FeedStage::kInputs};
const char* FeedStageName(FeedStage stage);

struct FeedOptions {
  int threads = 1;
  double seconds = 2;
  int64_t size = 224;  // height and width of what is made
};

struct FeedRate {
  double samples_per_second = 0;
  double bytes_per_second = 0;  // that were read
  uint64_t samples = 0;
  uint64_t broken = 0;  // of them; they count
};

// Samples are taken by a shuffle that is always the same, each with a random resized crop (a share
// of 0.08 at least) and a flip of its own. CANCELLED, a broken index, or the file system's codes;
// FAILED_PRECONDITION where every sample was broken. Requires an index that is not empty.
absl::StatusOr<FeedRate> MeasureFeed(FileSystem& data, const SampleIndex& index, FeedStage stage,
                                     const FeedOptions& options);

}  // namespace muster::worker
