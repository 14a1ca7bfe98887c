// Looks at the data of a job before it runs: whether they are there, what they are, and whether a
// few samples, drawn by chance, can be used. Makes the index of pictures where there is none.
//
// Used by `muster-data preflight`, which the agent runs before a job is placed on its machine. What
// is read is bounded, but for the making of an index.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/fs/file_system.h"
#include "common/object_store/cache/any_file_system.h"
#include "trainer_spec/job_spec.h"

namespace muster::worker {

// Of each set, if it has as many.
inline constexpr uint64_t kPreflightSamples = 16;
// Data that ranks hold in memory are read and compared whole up to this size; of larger ones the
// fingerprint is left out.
inline constexpr uint64_t kMostPreflightBytes = 256u << 20;

struct PreflightReport {
  // As the ranks compare it (Dataset::fingerprint); empty where it would take too long.
  std::string fingerprint;
  // Of training, validation and test; zero where only reading it all would tell.
  std::array<uint64_t, 3> samples = {};
  uint64_t tried = 0;   // samples that were read and decoded
  uint64_t broken = 0;  // of them, no more than the job puts up with
};

// UNIMPLEMENTED only where a source is synthetic, digits or cifar_bin: nothing is looked at. Else
// the errors say what is wrong with the data, or why they cannot be read; PreflightFault tells
// which.
absl::StatusOr<PreflightReport> Preflight(AnyFileSystem& data, FileSystem& local,
                                          const trainer_spec::JobSpec& spec,
                                          const std::function<void(uint64_t)>& progress);

// "missing", "forbidden", "broken", "unavailable" (the storage), or "other". Of an error of
// Preflight.
absl::string_view PreflightFault(AnyFileSystem& data, const trainer_spec::JobSpec& spec,
                                 const absl::Status& why);

}  // namespace muster::worker
