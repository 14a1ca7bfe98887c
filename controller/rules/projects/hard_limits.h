// Hard limits on projects, jobs and events, independent of quotas. Pure; used by the rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "controller/model/draft.h"

namespace muster::controller {

// Each stays in the database for ever, and some answers and pages list them all.
inline constexpr size_t kMaxProjects = 4096;
// Jobs that have not ended. Each is some kilobytes here, and the limits loop visits it each second.
inline constexpr size_t kMaxActiveJobs = 1'000'000;
// After this many events people can only cancel the job.
inline constexpr size_t kMaxEventsOfJob = 10'000;

// RESOURCE_EXHAUSTED "refused: ...": the project would be one too many.
absl::Status MayAddProject(const Draft& draft, const std::string& project);
// Likewise, so many jobs.
absl::Status MayAddJobs(const Draft& draft, uint32_t jobs);
// Likewise, one more change of the job that is recorded.
absl::Status MayChange(const Job& job);

}  // namespace muster::controller
