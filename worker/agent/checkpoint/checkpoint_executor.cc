#include "worker/agent/checkpoint/checkpoint_executor.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/ckpt/checkpoint_folder.h"
#include "common/ckpt/checkpoint_root.h"
#include "common/ckpt/manifest.h"
#include "common/ckpt/verifier.h"

namespace muster::worker {
namespace {

// A checkpoint that cannot be read says nothing about its bytes: such reads are repeated this often
// first.
constexpr int kReadTries = 3;
constexpr absl::Duration kReportRetryPause = absl::Milliseconds(500);

// Bytes that were read, and match or do not.
bool IsConclusive(const absl::Status& status) { return status.ok() || absl::IsDataLoss(status); }

// The assignment cannot be carried out now: to be tried again, here or elsewhere.
CheckpointOutcome Refuse(uint64_t outbox_seq, const absl::Status& why) {
  return {.outbox_seq = outbox_seq, .result = {}, .refusal = std::string(why.message())};
}

}  // namespace

absl::Status DeleteCheckpointFolder(FileSystem& fs, const std::string& path,
                                    const std::function<bool()>& goes_on) {
  const size_t slash = path.rfind('/');
  if (!absl::StartsWith(path, "/") || slash == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is not an absolute path of a checkpoint"));
  }
  const auto folder = ParseFolderName(absl::string_view(path).substr(slash + 1));
  if (!folder.has_value() || folder->temporary()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is not named like a published checkpoint"));
  }
  MUSTER_ASSIGN_OR_RETURN(const bool exists, fs.Exists(path));
  if (!exists) return absl::OkStatus();
  if (!goes_on()) return absl::CancelledError(absl::StrCat(path, ": its removal was given up"));
  const absl::Status manifest = fs.RemoveFile(absl::StrCat(path, "/", kManifestFile));
  if (!manifest.ok() && !absl::IsNotFound(manifest)) return manifest;
  MUSTER_RETURN_IF_ERROR(fs.SyncDirectory(path));
  MUSTER_RETURN_IF_ERROR(fs.RemoveTree(path));
  return fs.SyncDirectory(path.substr(0, slash));
}

CheckpointOutcome CheckpointExecutor::DoVerify(FileSystem& fs, Work& work,
                                               const v1::VerifyCheckpoint& assignment) {
  const CheckpointRoot root{.path = assignment.root(), .identity = assignment.root_identity()};
  const absl::Status seen_before = CheckRoot(fs, root);
  absl::Status status;
  for (int i = 0; i < kReadTries; ++i) {
    status = VerifyCheckpoint(fs, assignment.path(), assignment.manifest_sha256(),
                              [&](uint64_t, uint64_t) {
                                work.watch.GetOn();
                                return work.goes_on();
                              });
    if (IsConclusive(status) || !work.goes_on()) break;
    absl::SleepFor(kReportRetryPause);
  }
  Log(LogLevel::kInfo, "checkpoint_verified",
      {{"checkpoint", assignment.checkpoint_id()},
       {"path", assignment.path()},
       {"result", status.ToString()}});
  // What was read of another folder, or is not to be found in it, says nothing of the checkpoint.
  const absl::Status seen = seen_before.ok() ? CheckRoot(fs, root) : seen_before;
  if (!status.ok() && !seen.ok()) return Refuse(assignment.outbox_seq(), seen);
  const bool not_there = absl::IsNotFound(status) && !root.identity.empty();
  // Of a folder that lacks a file of its own there is something left to delete.
  const bool missing = not_there && !fs.Exists(assignment.path()).value_or(true);
  if (!IsConclusive(status) && !not_there) return Refuse(assignment.outbox_seq(), status);
  CheckpointOutcome outcome;
  outcome.outbox_seq = assignment.outbox_seq();
  v1::VerifyResult& result = *outcome.result.mutable_verify_result();
  result.set_outbox_seq(assignment.outbox_seq());
  result.set_checkpoint_id(assignment.checkpoint_id());
  result.set_ok(status.ok());
  result.set_missing(missing);
  if (!status.ok()) result.set_message(std::string(status.message()));
  return outcome;
}

CheckpointOutcome CheckpointExecutor::DoDelete(FileSystem& fs, Work& work,
                                               const v1::DeleteCheckpoint& assignment) {
  // What is not there in another folder is not gone.
  const absl::Status root_seen =
      CheckRoot(fs, {.path = assignment.root(), .identity = assignment.root_identity()});
  if (!root_seen.ok()) return Refuse(assignment.outbox_seq(), root_seen);
  // What was refused meanwhile may be kept by now, or be another worker's to delete.
  const absl::Status status =
      DeleteCheckpointFolder(fs, assignment.path(), [&work] { return work.goes_on(); });
  if (absl::IsCancelled(status)) return Refuse(assignment.outbox_seq(), status);
  CheckpointOutcome outcome;
  outcome.outbox_seq = assignment.outbox_seq();
  v1::DeleteResult& result = *outcome.result.mutable_delete_result();
  result.set_outbox_seq(assignment.outbox_seq());
  result.set_checkpoint_id(assignment.checkpoint_id());
  result.set_ok(status.ok());
  if (!status.ok()) result.set_message(std::string(status.message()));
  Log(LogLevel::kInfo, "checkpoint_deleted",
      {{"checkpoint", assignment.checkpoint_id()},
       {"path", assignment.path()},
       {"result", status.ToString()}});
  return outcome;
}

CheckpointExecutor::CheckpointExecutor(FileSystem& fs, Timers& timers,
                                       std::shared_ptr<Mailbox> mailbox,
                                       CheckpointExecutorOptions options,
                                       std::function<void(CheckpointOutcome)> done)
    : fs_(fs),
      timers_(timers),
      patience_(options.patience),
      mounts_(timers.clock(), options.mounts_every, std::move(options.mount_info)),
      done_(std::move(done)),
      threads_(std::move(mailbox), kMaxRoots, kMaxRootsOnMount) {}

bool CheckpointExecutor::Verify(const v1::VerifyCheckpoint& assignment) {
  Job job = [&fs = fs_, assignment](Work& work) {
    work.watch.Touch(assignment.path());
    return DoVerify(fs, work, assignment);
  };
  return Enqueue(assignment.root(), {assignment.outbox_seq(), std::move(job)});
}

bool CheckpointExecutor::Delete(const v1::DeleteCheckpoint& assignment) {
  Job job = [&fs = fs_, assignment](Work& work) {
    work.watch.Touch(assignment.path());
    return DoDelete(fs, work, assignment);
  };
  return Enqueue(assignment.root(), {assignment.outbox_seq(), std::move(job)});
}

bool CheckpointExecutor::Enqueue(const std::string& path, Assignment assignment) {
  if (queued_ >= kMaxQueued) return false;
  ++queued_;
  const RootKey root(path, mounts_.Of(path));
  const auto [at, is_free] = roots_.try_emplace(root);
  if (is_free) {
    Begin(root, std::move(assignment));
  } else if (!at->second.stall.ok()) {
    Answer(Refuse(assignment.outbox_seq, at->second.stall));
  } else {
    at->second.waiting.push_back(std::move(assignment));
  }
  return true;
}

void CheckpointExecutor::Begin(const RootKey& root, Assignment assignment) {
  const auto work = std::make_shared<Work>(root.second);
  work->stopping = threads_.stopping();
  const std::weak_ptr<Work> until_done = work;
  EnqueueWatched(
      timers_, threads_,
      [this, alive = alive_, root, work,
       job = std::move(assignment.job)]() -> SideThreads::Completion {
        // Off the loop: nothing of *this is touched here.
        return [this, alive, root, outcome = job(*work)] {
          if (*alive) OnDone(root, outcome);
        };
      },
      std::shared_ptr<PathWatch>(work, &work->watch), patience_,
      [this, alive = alive_, root, until_done, outbox_seq = assignment.outbox_seq](
          const absl::Status& stall, bool began) {
        if (!*alive) return;
        if (const auto held = until_done.lock(); held != nullptr) held->given_up = true;
        OnStall(root, outbox_seq, stall, began);
      });
}

void CheckpointExecutor::OnDone(const RootKey& root, CheckpointOutcome outcome) {
  Root& at = roots_.at(root);
  // What was refused is answered, whatever came of it.
  if (at.stall.ok()) Answer(std::move(outcome));
  if (at.waiting.empty()) {
    roots_.erase(root);
    return;
  }
  Assignment next = std::move(at.waiting.front());
  at.waiting.pop_front();
  Begin(root, std::move(next));
}

void CheckpointExecutor::OnStall(const RootKey& root, uint64_t outbox_seq,
                                 const absl::Status& stall, bool began) {
  Log(LogLevel::kWarning, "checkpoint_root_hangs",
      {{"root", root.first}, {"error", stall.ToString()}});
  Root& at = roots_.at(root);
  const std::deque<Assignment> waiting = std::exchange(at.waiting, {});
  at.stall = stall;
  // No thread was there for it, and it was taken back.
  if (!began) roots_.erase(root);
  Answer(Refuse(outbox_seq, stall));
  for (const Assignment& assignment : waiting) Answer(Refuse(assignment.outbox_seq, stall));
}

void CheckpointExecutor::Answer(CheckpointOutcome outcome) {
  --queued_;
  done_(std::move(outcome));
}

}  // namespace muster::worker
