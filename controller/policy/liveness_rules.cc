#include "controller/policy/liveness_rules.h"

#include <optional>

#include "common/base/image_pull.h"

namespace muster::controller {
namespace {

std::optional<Event> JudgeWorker(const Worker& worker, const LivenessSettings& settings,
                                 absl::Duration now) {
  if (worker.presence == Presence::kLost) return std::nullopt;
  const absl::Duration silent = now - worker.last_seen_at;
  const bool in_grace = now - settings.started_at < settings.startup_grace;
  WorkerSilent event{.worker = worker.name,
                     .incarnation = worker.incarnation,
                     .presence = Presence::kSuspect,
                     .last_seen_at = worker.last_seen_at};
  if (silent >= settings.lost_after && !in_grace) {
    event.presence = Presence::kLost;
    return event;
  }
  if (silent >= settings.suspect_after && worker.presence == Presence::kReady) return event;
  return std::nullopt;
}

// The agent's word on a live rank; null while it has said nothing, or says no more because the rank
// ended.
const RankStatus* FindStatus(const Snapshot& snapshot, const Attempt& attempt, const Rank& rank) {
  if (rank.state == RankState::kExited || rank.state == RankState::kLost) return nullptr;
  const Worker* worker = snapshot.FindWorker(rank.worker);
  // A worker that is away cannot report progress; whether it is lost is judged apart.
  if (worker == nullptr || !worker->connected || worker->ranks == nullptr) return nullptr;
  for (const RankStatus& status : *worker->ranks) {
    if (status.fence.job_id == attempt.job_id && status.fence.attempt == attempt.number &&
        status.rank == rank.rank) {
      return &status;
    }
  }
  return nullptr;
}

std::optional<Event> JudgeProgress(const Snapshot& snapshot, const Job& job, absl::Duration now) {
  const RankStatus* stillest = nullptr;
  for (const Rank& rank : job.current->ranks) {
    const RankStatus* status = FindStatus(snapshot, *job.current, rank);
    if (status == nullptr) continue;
    if (stillest == nullptr || status->progress_at < stillest->progress_at) stillest = status;
  }
  if (stillest == nullptr) return std::nullopt;
  const absl::Duration still_for = now - stillest->progress_at;
  if (still_for < job.settings->restart.progress_timeout) return std::nullopt;
  return RankHung{.job_id = job.id,
                  .attempt = job.current->number,
                  .rank = stillest->rank,
                  .silent_for = still_for};
}

}  // namespace

std::vector<Event> FindSilent(const Snapshot& snapshot, const LivenessSettings& settings,
                              absl::Duration now) {
  std::vector<Event> events;
  snapshot.workers.ForEach([&](const Worker& worker) {
    if (std::optional<Event> event = JudgeWorker(worker, settings, now)) {
      events.push_back(*std::move(event));
    }
  });
  for (uint64_t id : *snapshot.active_jobs) {
    const Job& job = *snapshot.FindJob(id);
    if (!job.has_live_attempt()) continue;
    const absl::Duration waited = now - job.current->placed_at;
    // Its agents bound the pull themselves.
    const bool may_pull = job.settings->needs.image != JobNeeds::Image::kNone;
    const absl::Duration patience =
        settings.start_timeout + (may_pull ? kImagePullPatience : absl::ZeroDuration());
    if (job.state == JobState::kStarting && waited >= patience) {
      events.push_back(
          StartTimedOut{.job_id = id, .attempt = job.current->number, .waited = waited});
    } else if (job.state == JobState::kRunning) {
      if (std::optional<Event> event = JudgeProgress(snapshot, job, now)) {
        events.push_back(*std::move(event));
      }
    }
  }
  return events;
}

}  // namespace muster::controller
