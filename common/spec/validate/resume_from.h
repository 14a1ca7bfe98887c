// What `checkpoint.resume_from` says: which checkpoints of which other job a job begins from. Pure.
// Used by ValidateSpec and by the controller's conversion.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

struct ResumeFrom {
  enum class Which {
    kNewestFew,  // JOB, and auto
    kStep,       // JOB@120
    kBest,       // JOB@best
    kNewest,     // JOB@newest
  };
  bool automatic = false;        // the newest job of its own name and project that has any; else
  uint64_t job_id = 0;           // this job,
  std::optional<uint32_t> task;  // or this task of the array that job_id names,
  std::string job_name;          // or the newest job of this name
  Which which = Which::kNewestFew;
  int64_t step = 0;
};

// INVALID_ARGUMENT with what is wrong and what is allowed.
absl::StatusOr<ResumeFrom> ParseResumeFrom(absl::string_view text);

}  // namespace muster
