// Jobs that have ended and left memory, with all that was known of them when they did
// (docs/decisions/0013). The API and the ingest of metrics read them here; what is to change again
// is restored into the model first (RestoreJobs).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "controller/model/types/events.h"
#include "controller/model/types/metrics_types.h"

namespace muster::controller {

struct ArchivedJobsQuery {
  uint64_t below = 0;            // ids below this one; 0: all
  std::vector<JobState> states;  // empty: all
  std::string project;           // empty: all
  // By the wall clock, as Job::finished.
  absl::Time finished_from = absl::InfinitePast();
  absl::Time finished_before = absl::InfiniteFuture();
  size_t most = 1000;
};

// A walk looks at a bounded number of ids a call.
template <typename T>
struct ArchivedPage {
  std::vector<T> rows;          // newest first
  uint64_t looked_down_to = 0;  // where the walk goes on (ArchivedJobsQuery::below); 0: all is seen
};

// What `muster goodput` adds up.
struct ArchivedLedger {
  uint64_t id = 0;
  std::string name;
  std::string project;
  JobState state = JobState::kSucceeded;
  JobLedger ledger;
};

// Thread-safe; a call may take milliseconds. An id of 0 in an answer: there is none. A job that was
// restored may still be here, as it was when it was archived: ask the snapshot first.
// Errors: DATA_LOSS and UNKNOWN, the file cannot be read.
class History {
 public:
  virtual ~History() = default;

  virtual size_t jobs() const = 0;
  // The file was made when jobs up to this one had been submitted, and when that was (ledger time).
  // One of them that is not here may have been in an earlier file, which was lost: that it is not
  // here does not mean that it was forgotten. 0: there were none.
  virtual uint64_t began_after_job() const = 0;
  virtual absl::Time began() const = 0;
  virtual uint64_t last_event() const = 0;  // the highest sequence of an archived job's events

  // NOT_FOUND: no such job is here.
  virtual absl::StatusOr<ArchivedJob> Find(uint64_t id) = 0;
  virtual absl::StatusOr<uint64_t> NewestOfName(absl::string_view name) = 0;
  // The newest of the project and name below `below` that had a checkpoint which could be restored
  // when it was archived.
  virtual absl::StatusOr<uint64_t> NewestResumable(absl::string_view project,
                                                   absl::string_view name, uint64_t below) = 0;
  // The tasks of the array, ascending: all of them, or none.
  virtual absl::StatusOr<std::vector<uint64_t>> TasksOf(uint64_t array_id) = 0;
  virtual absl::StatusOr<uint64_t> OfKey(absl::string_view owner, absl::string_view key) = 0;
  virtual absl::StatusOr<uint64_t> OfCheckpoint(uint64_t checkpoint_id) = 0;
  // When those of `ids` that are here finished (ledger time). `ids` ascend.
  virtual absl::StatusOr<std::map<uint64_t, absl::Time>> FinishedAmong(
      const std::vector<uint64_t>& ids) = 0;
  // Whether that rank of that attempt was placed on the worker.
  virtual absl::StatusOr<bool> WasPlacedOn(const RankKey& rank, absl::string_view worker) = 0;

  virtual absl::StatusOr<ArchivedPage<uint64_t>> List(const ArchivedJobsQuery& query) = 0;
  virtual absl::StatusOr<ArchivedPage<ArchivedLedger>> Ledgers(const ArchivedJobsQuery& query) = 0;
  // Of all archived jobs, in order of their sequences: the first after `sequence`.
  virtual absl::StatusOr<std::vector<std::shared_ptr<const JobEvent>>> EventsAfter(
      uint64_t sequence, size_t most) = 0;
  // Sequences of the newest events, newest first.
  virtual absl::StatusOr<std::vector<uint64_t>> NewestEvents(size_t most) = 0;
};

}  // namespace muster::controller
