// How large a batch fits: steps with ever larger ones, until the memory or the training set ends.
//
// Used by `muster-trainer find-batch`, which `muster check --batch-within` runs for people. Nothing
// is saved.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "trainer_spec/job_spec.h"

namespace muster::worker {

// The largest batch of one rank, a power of two, whose steps stay within `limit_bytes`: on the CPU
// of the process's resident memory, on a device of what it allocates. The rank is tried alone: the
// buckets that gloo and NCCL exchange are not in it. Never more samples than the training set has
// for each rank of the job, nor than 2^20. RESOURCE_EXHAUSTED when not even one sample fits.
struct LargestBatch {
  int64_t samples = 0;
  int64_t peak_bytes = 0;
  // Why it is not twice as large: the most that the training set has for a rank, or the peak that
  // twice as large a batch came to, 0 when it was not tried or ran out of memory outright.
  int64_t most_samples = 0;
  int64_t next_peak_bytes = 0;
};
std::string BatchText(const LargestBatch& largest);
std::string BatchJson(const LargestBatch& largest);
absl::StatusOr<LargestBatch> FindLargestBatch(const trainer_spec::JobSpec& spec, FileSystem& fs,
                                              int64_t limit_bytes);

}  // namespace muster::worker
