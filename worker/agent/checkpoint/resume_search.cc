#include "worker/agent/checkpoint/resume_search.h"

#include <utility>

#include "common/base/log.h"
#include "common/ckpt/checkpoint_finder.h"
#include "common/ckpt/checkpoint_root.h"
#include "common/ckpt/checkpoint_writer.h"
#include "worker/agent/command/command_rules.h"

namespace muster::worker {
namespace {

v1::CheckpointEvent MakeEvent(const v1::StartRanks& start, v1::CheckpointEvent::Kind kind,
                              const std::string& path, int64_t step) {
  v1::CheckpointEvent event;
  *event.mutable_fence() = start.fence();
  event.set_kind(kind);
  event.set_path(path);
  event.set_step(step);
  return event;
}

}  // namespace

ResumeFound SearchResume(FileSystem& fs, const v1::StartRanks& start,
                         const std::function<bool()>& keep_going) {
  ResumeFound result;
  const CheckpointRoot root{.path = start.root(), .identity = start.root_identity()};
  if (const absl::Status seen = CheckRoot(fs, root); !seen.ok()) {
    result.status = AsStorageUnavailable(seen);
    return result;
  }
  FindRequest request;
  request.root = start.checkpoint_root();
  request.job_id = start.fence().job_id();
  request.job_name = start.job_name();
  request.attempt = start.fence().attempt();
  for (const v1::StartRanks::Resume& resume : start.resume()) {
    request.registered.push_back({resume.path(), resume.step(), resume.manifest_sha256(),
                                  resume.job_id(), resume.job_name()});
  }
  request.on_bad = [&](const CheckpointCandidate& candidate, const absl::Status& why) {
    if (!CheckRoot(fs, root).ok()) return;
    // Only bytes that were read, and do not match, speak against it.
    const auto kind =
        absl::IsDataLoss(why) ? v1::CheckpointEvent::CORRUPT : v1::CheckpointEvent::UNREAD;
    result.events.push_back(MakeEvent(start, kind, candidate.path, candidate.step));
    result.events.back().set_message(std::string(why.message()));
  };
  request.progress = [&](uint64_t, uint64_t) { return keep_going(); };
  const auto found = FindCheckpoint(fs, request);
  result.status = found.status();
  if (const absl::Status seen = CheckRoot(fs, root); !found.ok() && !seen.ok()) {
    result.status = AsStorageUnavailable(seen);
  }
  if (!found.ok() || !found->has_value()) return result;
  const Manifest& manifest = (*found)->checkpoint.manifest;
  result.path = (*found)->path;
  result.step = manifest.step;
  if ((*found)->adopted) {
    v1::CheckpointEvent event =
        MakeEvent(start, v1::CheckpointEvent::COMMIT, result.path, result.step);
    event.set_manifest_sha256((*found)->checkpoint.manifest_sha256);
    event.set_bytes(manifest.TotalBytes());
    event.set_epoch(manifest.epoch);
    event.set_best(manifest.best);
    for (const auto& [name, value] : manifest.metrics) (*event.mutable_metrics())[name] = value;
    result.events.push_back(std::move(event));
  }
  return result;
}

void RemoveLeftHalfWritten(FileSystem& fs, const v1::StartRanks& start) {
  if (!CheckRoot(fs, {.path = start.root(), .identity = start.root_identity()}).ok()) return;
  const absl::Status removed = RemoveStaleTemporaries(
      fs, start.checkpoint_root(), start.fence().attempt(), start.fence().generation());
  if (removed.ok()) return;
  Log(LogLevel::kWarning, "stale_checkpoints_not_removed", {{"error", removed.ToString()}});
}

}  // namespace muster::worker
