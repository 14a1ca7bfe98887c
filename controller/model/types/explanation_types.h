// Why a job waits, and when it could start: what policy/explain/explain finds out. Plain data.
//
// Enum values are the numbers of muster/v1/job_service.proto, so that the API converts by a cast.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "controller/model/types/plan.h"

namespace muster::controller {

enum class BlockerKind : uint8_t {
  kHeld = 1,        // somebody wants it not to start
  kSuspended = 2,   // likewise, after it ran
  kLeaving = 3,     // its last attempt is still being stopped
  kDependency = 4,  // another job must end first
  kMadeWay = 5,     // it gave its slots to another job, which gets them first
  kBegin = 6,       // not before a time
  kBackoff = 7,     // it was lost, and waits before the next try
  kArray = 8,       // enough of its array run
  kQuota = 9,       // of its project or user
  kSlots = 10,      // too few are free, or too few on one worker
  kCpus = 11,
  kMemory = 12,
  kWorkers = 13,   // too few workers that take work, or that it could ever run on
  kPool = 14,      // a further pool that does not count yet
  kOrder = 15,     // jobs that come first get what there is
  kLabels = 16,    // free slots of workers that lack a label it wants
  kExcluded = 17,  // of workers that it excludes
  kGpuType = 18,   // of another model
  kCommands = 19,  // of workers that run no commands
  kImages = 20,    // of workers that run no container images, or not of its kind
};

struct Blocker {
  BlockerKind kind = BlockerKind::kSlots;
  // Not itself in the way: what there is, but not for this job as it stands.
  bool is_hint = false;
  std::string pool;       // the one it is about; empty: all. One pool without blockers will do
  std::string message;    // a sentence
  std::string needed;     // "4 CPU slots"
  std::string available;  // "1 of 8 free"
  uint64_t job_id = 0;    // who is waited for; 0: nobody
};

// Where an expected run time comes from.
enum class RunTimeSource : uint8_t {
  kUnknown = 0,
  kDeclared = 1,  // scheduling.expected_run_time
  kLearned = 2,   // earlier jobs of its project and name
  kLimit = 3,     // scheduling.max_run_time: the most that it may run
  kProgress = 4,  // of a running job: how fast it gets on
};

// An end that a forecast counts on.
struct ExpectedEndOf {
  uint64_t job_id = 0;
  RunTimeSource source = RunTimeSource::kUnknown;
  absl::Time end;
};

struct Explanation {
  bool waits = false;             // PENDING, RECOVERING or SUSPENDED
  std::string reason;             // in one sentence, as `ls` shows it
  std::vector<Blocker> blockers;  // of a job that waits; empty: the scheduler places it now
  std::vector<uint64_t> ahead;    // who comes first in its pools, in order, at most kMaxListed
  uint64_t ahead_count = 0;
  absl::Time start = absl::InfiniteFuture();  // infinite: unknown
  std::string why_unknown;                    // in that case
  std::vector<ExpectedEndOf> rests_on;        // what `start` counts on, at most kMaxListed
  uint64_t rests_on_count = 0;
  absl::Time end = absl::InfiniteFuture();  // of a job that runs; infinite: unknown
  std::vector<RankPlacement> ranks;  // where it would start then; of a job that runs: where it is
  absl::Duration run_time = absl::InfiniteDuration();  // what is left of it; infinite: unknown
  RunTimeSource run_time_source = RunTimeSource::kUnknown;
  uint32_t slots = 0;                 // of `ranks`
  double slot_hours = -1;             // those over `run_time`; below zero: unknown
  std::string forecast;               // of a job that waits: all this in one line
  std::vector<uint64_t> resume_from;  // of a submit's forecast: as JobSettings.resume_from

  static constexpr size_t kMaxListed = 20;
};

}  // namespace muster::controller
