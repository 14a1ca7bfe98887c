// Where the time of a recipe's step goes: a short run of its ranks on this machine.
//
// Used by recipe_check.cc. On the CPU each rank is a thread of this process, with a transport
// between them as the job's ranks have it on one machine: at least two of them when the job has
// more than one, and no more than the cores carry. On GPUs it is one rank, and communication is not
// measured.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "trainer_spec/job_spec.h"

namespace muster::worker {

// Of rank 0, in seconds a step.
struct StepProfile {
  int planned_ranks = 1;  // of the job
  int ranks = 1;          // that ran here
  std::string transport;  // between them; Collectives::transport
  double data_seconds = 0, compute_seconds = 0, communication_seconds = 0, optimizer_seconds = 0;
  double samples_per_second = 0;         // of the rank
  double loader_samples_per_second = 0;  // of the loader alone

  double step_seconds() const {
    return data_seconds + compute_seconds + communication_seconds + optimizer_seconds;
  }
  // One sentence: what the time goes to, and what would help. Pure, as all three.
  std::string LimitText() const;
  std::string RanksText() const;
};

// How many of `planned` ranks run here.
int RanksToProfile(int planned, int cores, int threads_per_rank, bool on_gpus);

// Fails as the run would fail; throws what torch throws.
absl::StatusOr<StepProfile> ProfileRecipe(const trainer_spec::JobSpec& spec, FileSystem& fs);

}  // namespace muster::worker
