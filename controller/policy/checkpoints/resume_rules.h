// Which checkpoints a job begins from: its own newest ones and its best one, then those of another
// job that its submit named (checkpoint.resume_from). Pure.
//
// What a submit names is settled once, with its commit, to the ids in JobSettings::resume_from.
// From then on those count, whatever becomes of the other job: retention keeps them while the job
// needs them (policy/checkpoints/retention_rules), and a job that is left with none of them, and
// none of its own, fails. It never begins from nothing instead.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/model/draft.h"
#include "controller/model/types/events.h"

namespace muster::controller {

// An attempt tries at most so many of its own newest, and so many of another job's.
inline constexpr size_t kMaxResumeCandidates = 8;

// The checkpoints that `request` means now for a job with these settings, newest first; empty:
// `auto`, and no job has any. NOT_FOUND: no such job, or no checkpoint of that step.
// FAILED_PRECONDITION "refused: ...": it has none that can be restored, and why.
absl::StatusOr<std::vector<uint64_t>> ResolveResume(const Draft& draft, const JobSettings& settings,
                                                    const ResumeRequest& request);

// What an attempt that is placed now tries, in that order: its own newest ones, the newest best one
// that is older than these (with it the attempt also knows where its best one is), those of another
// job. Nothing that is being deleted, unless there is nothing else.
std::vector<uint64_t> ResumeCandidates(const Snapshot& snapshot, const Job& job);

// Why the job cannot be placed any more: it committed checkpoints, or was to begin from another
// job's, and none of them can be restored. Nothing: it can.
std::optional<std::string> WhyNothingToResume(const Snapshot& snapshot, const Job& job);

// "job 7 (digits), step 120", for people. Requires that the list is not empty.
std::string ResumeText(const Snapshot& snapshot, const std::vector<uint64_t>& resume_from);

}  // namespace muster::controller
