#include "worker/agent/checkpoint_worker.h"

#include <atomic>
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
constexpr absl::Duration kRetryPause = absl::Milliseconds(500);

// Bytes that were read, and match or do not.
bool IsVerdict(const absl::Status& status) { return status.ok() || absl::IsDataLoss(status); }

// The assignment cannot be carried out now: to be tried again, here or elsewhere.
CheckpointOutcome Refuse(uint64_t outbox_seq, const absl::Status& why) {
  return {.outbox_seq = outbox_seq, .result = {}, .refusal = std::string(why.message())};
}

}  // namespace

absl::Status DeleteCheckpointFolder(FileSystem& fs, const std::string& path) {
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
  const absl::Status manifest = fs.RemoveFile(absl::StrCat(path, "/", kManifestFile));
  if (!manifest.ok() && !absl::IsNotFound(manifest)) return manifest;
  MUSTER_RETURN_IF_ERROR(fs.SyncDirectory(path));
  MUSTER_RETURN_IF_ERROR(fs.RemoveTree(path));
  return fs.SyncDirectory(path.substr(0, slash));
}

namespace {

CheckpointOutcome DoVerify(FileSystem& fs, const std::atomic<bool>& stopping,
                           const v1::VerifyCheckpoint& assignment) {
  const CheckpointRoot root{.path = assignment.root(), .identity = assignment.root_identity()};
  const absl::Status seen_before = CheckRoot(fs, root);
  absl::Status status;
  for (int i = 0; i < kReadTries; ++i) {
    status = VerifyCheckpoint(fs, assignment.path(), assignment.manifest_sha256(),
                              [&](uint64_t, uint64_t) { return !stopping; });
    if (IsVerdict(status) || stopping) break;
    absl::SleepFor(kRetryPause);
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
  if (!IsVerdict(status) && !not_there) return Refuse(assignment.outbox_seq(), status);
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

CheckpointOutcome DoDelete(FileSystem& fs, const v1::DeleteCheckpoint& assignment) {
  // What is not there in another folder is not gone.
  const absl::Status root_seen =
      CheckRoot(fs, {.path = assignment.root(), .identity = assignment.root_identity()});
  if (!root_seen.ok()) return Refuse(assignment.outbox_seq(), root_seen);
  const absl::Status status = DeleteCheckpointFolder(fs, assignment.path());
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

}  // namespace

CheckpointWorker::CheckpointWorker(FileSystem& fs, std::shared_ptr<Mailbox> mailbox,
                                   std::function<void(CheckpointOutcome)> done)
    : fs_(fs), done_(std::move(done)), threads_(std::move(mailbox), /*most=*/1) {}

bool CheckpointWorker::Verify(const v1::VerifyCheckpoint& assignment) {
  return Enqueue([&fs = fs_, stopping = threads_.stopping(), assignment] {
    return DoVerify(fs, *stopping, assignment);
  });
}

bool CheckpointWorker::Delete(const v1::DeleteCheckpoint& assignment) {
  return Enqueue([&fs = fs_, assignment] { return DoDelete(fs, assignment); });
}

bool CheckpointWorker::Enqueue(Job job) {
  if (queued_ >= kMaxQueued) return false;
  ++queued_;
  threads_.Enqueue([this, alive = alive_, job = std::move(job)]() -> SideThreads::Completion {
    // Off the loop: nothing of *this is touched here.
    const auto outcome = std::make_shared<CheckpointOutcome>(job());
    return [this, alive, outcome] {
      if (!*alive) return;
      --queued_;
      done_(std::move(*outcome));
    };
  });
  return true;
}

}  // namespace muster::worker
