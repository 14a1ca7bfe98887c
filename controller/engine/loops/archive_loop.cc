#include "controller/engine/loops/archive_loop.h"

#include <memory>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "controller/policy/archive/ended_jobs_queue.h"

namespace muster::controller {
namespace {

constexpr absl::Duration kCheckEvery = absl::Seconds(1);
// After an error of history.db (a full disk): jobs stay in memory meanwhile.
constexpr absl::Duration kRetryAfter = absl::Minutes(1);
constexpr size_t kMostForgotten = 256;  // in one transaction

ArchiveJobs RowsOf(const Snapshot& snapshot, const std::vector<EndedJobs>& ended) {
  ArchiveJobs rows;
  size_t events = 0;
  for (const EndedJobs& jobs : ended) {
    if (events >= ArchiveJobs::kMostEvents) break;
    ArchiveJobs::Group& group = rows.groups.emplace_back();
    for (uint64_t id = jobs.first; id <= jobs.last; ++id) {
      group.push_back(RowsToArchive(snapshot, id));
      events += group.back().job->events.size();
    }
  }
  return rows;
}

absl::StatusOr<uint64_t> PutAll(HistoryStore& history, const ArchiveJobs& rows) {
  std::vector<ArchivedJob> jobs;
  for (const ArchiveJobs::Group& group : rows.groups) {
    jobs.insert(jobs.end(), group.begin(), group.end());
  }
  return history.Put(jobs);
}

absl::Status Forget(HistoryStore& history, const ArchiveSettings& settings, absl::Time now) {
  const absl::StatusOr<size_t> removed =
      history.RemoveOldest(now - settings.forget_after, settings.most, kMostForgotten);
  if (removed.ok() && *removed > 0) Log(LogLevel::kInfo, "jobs_forgotten", {{"jobs", *removed}});
  return removed.status();
}

// When it is tried again.
absl::Duration WarnAndRetry(const char* what, const absl::Status& error, absl::Duration now) {
  Log(LogLevel::kWarning, what,
      {{"error", error.ToString()},
       {"way_out",
        absl::IsDataLoss(error) ? "stop musterd, move history.db aside, start it" : ""}});
  return now + kRetryAfter;
}

}  // namespace

ArchivedJob RowsToArchive(const Snapshot& snapshot, uint64_t id) {
  ArchivedJob archived{.job = snapshot.jobs.Share(id), .checkpoints = {}};
  for (uint64_t checkpoint : archived.job->checkpoints) {
    archived.checkpoints.push_back(snapshot.checkpoints.Share(checkpoint));
  }
  return archived;
}

VersionLoop::Decide DecideArchiving(const ArchiveSettings& settings, absl::Duration start,
                                    HistoryStore& history) {
  return [settings, queue = std::make_shared<EndedJobsQueue>(start), &history](
             const Snapshot& snapshot, absl::Duration now) {
    VersionLoop::Decision decision;
    if (!settings.ArchivesAny()) return decision;
    decision.due_at = now + kCheckEvery;
    const std::vector<EndedJobs> ended = queue->Next(snapshot, settings, now);
    if (!ended.empty()) {
      ArchiveJobs rows = RowsOf(snapshot, ended);
      const absl::StatusOr<uint64_t> put = PutAll(history, rows);
      if (put.ok()) {
        rows.put = *put;
        decision.event = std::move(rows);
      } else {
        decision.due_at = WarnAndRetry("jobs_not_archived", put.status(), now);
      }
    }
    const absl::Status forgotten = Forget(history, settings, snapshot.LedgerTime(now));
    if (!forgotten.ok()) decision.due_at = WarnAndRetry("jobs_not_forgotten", forgotten, now);
    return decision;
  };
}

}  // namespace muster::controller
