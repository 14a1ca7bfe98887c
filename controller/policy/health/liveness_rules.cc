#include "controller/policy/health/liveness_rules.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/protocol/image_pull.h"

namespace muster::controller {
namespace {

// After a standstill the agents get this time to come back.
constexpr absl::Duration kHearsBeforeGone = absl::Hours(1);

bool IsInGrace(const LivenessSettings& settings, absl::Duration now) {
  return now - settings.hears_since < settings.startup_grace;
}

std::optional<Finding> EvaluateWorker(const Worker& worker, const LivenessSettings& settings,
                                      absl::Duration now) {
  const absl::Duration silent = now - worker.pulse.last_seen_at;
  if (worker.lost) {
    const bool gone = !worker.pulse.holders.empty();
    // Silence before this controller's start is measured by the wall clock, which may have been
    // set: that is not enough to take ranks for dead. Nor is silence while it stood still.
    const absl::Duration unheard = std::min(silent, now - settings.started);
    const bool hears = now - settings.hears_since >= kHearsBeforeGone;
    const bool is_over =
        gone ? hears && unheard >= settings.forget_gone_after : silent >= settings.forget_after;
    if (!is_over || !MayForget(worker, gone)) return std::nullopt;
    return WorkerExpired{
        .worker = worker.name, .last_seen_at = worker.pulse.last_seen_at, .gone = gone};
  }
  WorkerSilent event{.worker = worker.name,
                     .incarnation = worker.incarnation,
                     .presence = Presence::kSuspect,
                     .last_seen_at = worker.pulse.last_seen_at};
  if (silent >= settings.lost_after && !IsInGrace(settings, now)) {
    event.presence = Presence::kLost;
    return event;
  }
  if (silent >= settings.suspect_after && worker.presence() == Presence::kReady) return event;
  return std::nullopt;
}

// What the worker's agent last reported of a live rank; null: nothing yet, or the rank has ended.
// `worker` may be null.
const RankStatus* LastWord(const Worker* worker, const Attempt& attempt, const Rank& rank) {
  if (HasEnded(rank.state)) return nullptr;
  if (worker == nullptr || worker->pulse.ranks == nullptr) return nullptr;
  for (const RankStatus& status : *worker->pulse.ranks) {
    if (status.fence.job_id == attempt.job_id && status.fence.attempt == attempt.number &&
        status.rank == rank.rank) {
      return &status;
    }
  }
  return nullptr;
}

std::optional<Finding> EvaluateStart(const Snapshot& snapshot, const Job& job,
                                     absl::Duration start_timeout, absl::Duration now) {
  const absl::Duration got_on_at = StartGotOnAt(snapshot, *job.current);
  // Its agents limit the time of the pull themselves.
  const bool may_pull = job.settings->needs.image != JobNeeds::Image::kNone;
  const absl::Duration patience =
      start_timeout + (may_pull ? kImagePullPatience : absl::ZeroDuration());
  const absl::Duration waited = now - got_on_at;
  if (waited < patience) return std::nullopt;
  return StartTimedOut{
      .job_id = job.id, .attempt = job.current->number, .waited = waited, .got_on_at = got_on_at};
}

std::optional<Finding> EvaluateProgress(const Snapshot& snapshot, const Job& job,
                                        absl::Duration now) {
  const Rank* stillest = nullptr;
  absl::Duration progress_at = absl::InfiniteDuration();
  for (const Rank& rank : job.current->ranks) {
    const std::optional<absl::Duration> moved_at = LastProgressAt(snapshot, *job.current, rank);
    if (!moved_at.has_value() || *moved_at >= progress_at) continue;
    stillest = &rank;
    progress_at = *moved_at;
  }
  if (stillest == nullptr) return std::nullopt;
  const absl::Duration still_for = now - progress_at;
  if (still_for < job.settings->restart.progress_timeout) return std::nullopt;
  return RankHung{.job_id = job.id,
                  .attempt = job.current->number,
                  .rank = stillest->rank,
                  .silent_for = still_for,
                  .progress_at = progress_at};
}

std::optional<Finding> EvaluateGang(const Snapshot& snapshot, const Job& job,
                                    const LivenessSettings& settings, absl::Duration now) {
  if (!job.has_live_attempt()) return std::nullopt;
  if (job.state == JobState::kStarting) {
    return EvaluateStart(snapshot, job, settings.start_timeout, now);
  }
  if (job.state == JobState::kRunning) return EvaluateProgress(snapshot, job, now);
  return std::nullopt;
}

}  // namespace

absl::Duration StartGotOnAt(const Snapshot& snapshot, const Attempt& attempt) {
  absl::Duration got_on_at = attempt.placed_at;
  for (const Rank& rank : attempt.ranks) {
    const RankStatus* status = LastWord(snapshot.FindWorker(rank.worker), attempt, rank);
    if (status != nullptr) got_on_at = std::max(got_on_at, status->progress_at);
  }
  return got_on_at;
}

std::optional<absl::Duration> LastProgressAt(const Snapshot& snapshot, const Attempt& attempt,
                                             const Rank& rank) {
  const Worker* worker = snapshot.FindWorker(rank.worker);
  if (worker == nullptr || !worker->pulse.connected) return std::nullopt;
  const RankStatus* status = LastWord(worker, attempt, rank);
  return status == nullptr ? std::nullopt : std::make_optional(status->progress_at);
}

bool MayForget(const Worker& worker, bool gone) {
  const bool clear = gone || worker.pulse.holders.empty();
  return worker.lost && clear && !worker.cordoned;
}

std::vector<Finding> FindSilent(const Snapshot& snapshot, const LivenessSettings& settings,
                                absl::Duration now, size_t most) {
  std::vector<Finding> found;
  std::vector<Finding> to_store;
  snapshot.workers.ForEach([&](const Worker& worker) {
    if (found.size() >= most) return;
    std::optional<Finding> finding = EvaluateWorker(worker, settings, now);
    if (!finding.has_value()) return;
    const auto* silent = std::get_if<WorkerSilent>(&*finding);
    const bool is_suspect = silent != nullptr && silent->presence == Presence::kSuspect;
    if (is_suspect || to_store.size() < most) {
      (is_suspect ? found : to_store).push_back(*std::move(finding));
    }
  });
  for (Finding& finding : to_store) {
    if (found.size() < most) found.push_back(std::move(finding));
  }
  for (uint64_t id : *snapshot.active_jobs) {
    if (found.size() >= most || IsInGrace(settings, now)) break;
    const Job& job = *snapshot.FindJob(id);
    if (std::optional<Finding> finding = EvaluateGang(snapshot, job, settings, now)) {
      found.emplace_back(*std::move(finding));
    }
  }
  return found;
}

}  // namespace muster::controller
