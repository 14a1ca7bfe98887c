#include "worker/agent/checkpoint_worker.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/ckpt/checkpoint_folder.h"
#include "common/ckpt/manifest.h"
#include "common/ckpt/verifier.h"

namespace muster::worker {
namespace {

// A checkpoint that cannot be read says nothing about its bytes: such reads are repeated this often
// first.
constexpr int kReadTries = 3;
constexpr absl::Duration kRetryPause = absl::Milliseconds(500);

bool IsVerdict(const absl::Status& status) {
  return status.ok() || absl::IsDataLoss(status) || absl::IsNotFound(status) ||
         absl::IsFailedPrecondition(status);
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

CheckpointWorker::CheckpointWorker(FileSystem& fs, std::shared_ptr<Mailbox> mailbox,
                                   std::function<void(CheckpointOutcome)> done)
    : fs_(fs), mailbox_(std::move(mailbox)), done_(std::move(done)), thread_([this] { Run(); }) {}

CheckpointWorker::~CheckpointWorker() {
  stop_ = true;
  {
    MutexLock lock(mutex_);
    jobs_.clear();
    wake_.NotifyAll();
  }
  thread_.join();
}

bool CheckpointWorker::Verify(const v1::VerifyCheckpoint& assignment) {
  return Enqueue([this, assignment] { return DoVerify(assignment); });
}

bool CheckpointWorker::Delete(const v1::DeleteCheckpoint& assignment) {
  return Enqueue([this, assignment] { return DoDelete(assignment); });
}

bool CheckpointWorker::Enqueue(Job job) {
  MutexLock lock(mutex_);
  if (jobs_.size() >= kMaxQueued) return false;
  jobs_.push_back(std::move(job));
  wake_.NotifyOne();
  return true;
}

void CheckpointWorker::Run() {
  while (true) {
    Job job;
    {
      MutexLock lock(mutex_);
      while (jobs_.empty() && !stop_) wake_.Wait(mutex_);
      if (stop_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    CheckpointOutcome outcome = job();
    if (stop_) return;
    mailbox_->Post([done = done_, outcome = std::move(outcome)] { done(outcome); });
  }
}

CheckpointOutcome CheckpointWorker::DoVerify(const v1::VerifyCheckpoint& assignment) {
  absl::Status status;
  for (int i = 0; i < kReadTries; ++i) {
    status = VerifyCheckpoint(fs_, assignment.path(), assignment.manifest_sha256(),
                              [this](uint64_t, uint64_t) { return !stop_; });
    if (IsVerdict(status) || stop_) break;
    MutexLock lock(mutex_);
    if (!stop_) wake_.WaitFor(mutex_, kRetryPause);
  }
  CheckpointOutcome outcome;
  outcome.outbox_seq = assignment.outbox_seq();
  if (!IsVerdict(status)) outcome.refusal = std::string(status.message());
  v1::VerifyResult& result = *outcome.result.mutable_verify_result();
  result.set_outbox_seq(assignment.outbox_seq());
  result.set_checkpoint_id(assignment.checkpoint_id());
  result.set_ok(status.ok());
  if (!status.ok()) result.set_message(std::string(status.message()));
  Log(LogLevel::kInfo, "checkpoint_verified",
      {{"checkpoint", assignment.checkpoint_id()},
       {"path", assignment.path()},
       {"result", status.ToString()}});
  return outcome;
}

CheckpointOutcome CheckpointWorker::DoDelete(const v1::DeleteCheckpoint& assignment) {
  const absl::Status status = DeleteCheckpointFolder(fs_, assignment.path());
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

}  // namespace muster::worker
