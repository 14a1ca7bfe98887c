// A whole training run from its resolved spec, each rank a process: set up as muster-trainer sets
// it up, over a real transport and real files. Agent and controller are fakes.
//
// For what threads of one process would share and ranks do not: torch's generators and its
// settings. The parent must not have called anything of torch. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/ckpt/checkpoint_finder.h"
#include "trainer_spec/job_spec.h"

namespace muster::testing {

struct ForkedRun {
  trainer_spec::JobSpec spec;
  std::vector<std::string> addresses;  // one for each rank; those of one host are equal
  std::string root;                    // checkpoint folder
  uint32_t attempt = 1;
  std::vector<CheckpointCandidate> candidates;
  int64_t stop_after =
      -1;  // the last rank is asked to save and leave when it reported so many steps
};

struct ForkedOutcome {
  std::vector<absl::StatusCode> codes;  // of each rank; CANCELLED when it was stopped as asked
  std::string transport;
  std::string results;                         // of rank 0, all digits of them
  std::vector<CheckpointCandidate> committed;  // newest first
};

ForkedOutcome RunForked(const ForkedRun& run);

}  // namespace muster::testing
