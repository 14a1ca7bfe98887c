#include "worker/agent/command_checkpoints.h"

#include <sys/random.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

constexpr uint64_t kCopyBytes = 4u << 20;

absl::StatusOr<std::string> RandomNonce() {
  char bytes[8];
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
    return absl::InternalError("the kernel gives no random bytes");
  }
  return absl::BytesToHexString(absl::string_view(bytes, sizeof bytes));
}

// Appends a whole file to the checkpoint.
absl::Status CopyFile(FileSystem& fs, const BackgroundThread& background, const std::string& path,
                      const ByteSink& sink) {
  std::string buffer(kCopyBytes, '\0');
  for (uint64_t offset = 0;;) {
    if (background.stopping()) return absl::CancelledError("the agent stops");
    MUSTER_ASSIGN_OR_RETURN(const uint64_t got,
                            fs.ReadAt(path, offset, buffer.data(), buffer.size()));
    if (got == 0) return absl::OkStatus();
    MUSTER_RETURN_IF_ERROR(sink(absl::string_view(buffer.data(), got)));
    offset += got;
  }
}

// What is to be copied: (path, name in the checkpoint).
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> FilesOf(FileSystem& fs,
                                                                         const std::string& path) {
  std::vector<std::pair<std::string, std::string>> files;
  const auto listed = fs.List(path);
  if (!listed.ok()) {
    // A file, or nothing: reading it says which.
    MUSTER_RETURN_IF_ERROR(fs.FileSize(path).status());
    files.emplace_back(path, path.substr(path.rfind('/') + 1));
    return files;
  }
  for (const FileInfo& file : *listed) {
    if (file.is_directory) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, "/", file.name, " is a folder; a checkpoint is a file or a folder of files"));
    }
    files.emplace_back(absl::StrCat(path, "/", file.name), file.name);
  }
  return files;
}

absl::Status CheckFiles(const std::vector<std::pair<std::string, std::string>>& files,
                        const std::string& path) {
  if (files.empty() || files.size() > kMaxManifestFiles) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " holds ", files.size(), " files; 1 to ", kMaxManifestFiles));
  }
  for (const auto& [from, name] : files) {
    if (name == kManifestFile) {
      return absl::InvalidArgumentError(absl::StrCat(from, ": this name is Muster's own"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

CommandCheckpoints::CommandCheckpoints(FileSystem& fs, BackgroundThread& background,
                                       Options options, Callbacks callbacks)
    : fs_(fs),
      background_(background),
      options_(std::move(options)),
      callbacks_(std::move(callbacks)) {}

void CommandCheckpoints::Offer(uint64_t connection, const CheckpointLine& line) {
  const auto refuse = [&](absl::string_view why) {
    callbacks_.answer(connection, {.step = line.step, .error = std::string(why)});
  };
  if (!absl::StartsWith(line.path, "/") || line.path.size() < 2 || line.path.back() == '/') {
    return refuse("a checkpoint is offered by the absolute path of a file or a folder");
  }
  if (line.step < 0) return refuse("a checkpoint's step is at least 0");
  if (waiting_.size() >= kMaxWaiting) return refuse("too many checkpoints wait to be copied");
  waiting_.push_back({connection, line});
  if (!working_) StartNext();
}

void CommandCheckpoints::StartNext() {
  working_ = !waiting_.empty();
  if (!working_) return callbacks_.on_idle();
  current_ = std::move(waiting_.front());
  waiting_.pop_front();
  callbacks_.report(MakeEvent(v1::CheckpointEvent::BEGIN));
  background_.Enqueue([this, alive = alive_, &fs = fs_, &background = background_,
                       options = options_, line = current_.line]() -> BackgroundThread::Completion {
    // Off the loop: nothing of *this is touched here.
    const auto write = [&]() -> absl::StatusOr<Written> {
      MUSTER_ASSIGN_OR_RETURN(const auto files, FilesOf(fs, line.path));
      MUSTER_RETURN_IF_ERROR(CheckFiles(files, line.path));
      CheckpointFolder folder{line.step, options.fence.attempt(), options.fence.generation(), ""};
      MUSTER_ASSIGN_OR_RETURN(folder.nonce, RandomNonce());
      Written written;
      MUSTER_ASSIGN_OR_RETURN(written.writer, CheckpointWriter::Create(fs, options.root, folder));
      for (const auto& [from, name] : files) {
        MUSTER_RETURN_IF_ERROR(
            written.writer->AddFile(name, [&, &path = from](const ByteSink& sink) {
              return CopyFile(fs, background, path, sink);
            }));
      }
      Manifest manifest;
      manifest.job_id = options.fence.job_id();
      manifest.job_name = options.job_name;
      manifest.epoch = std::isfinite(line.epoch) ? line.epoch : 0;
      manifest.best = line.best;
      for (const auto& [name, value] : line.metrics) {
        if (std::isfinite(value)) manifest.metrics[name] = value;
      }
      MUSTER_ASSIGN_OR_RETURN(written.manifest_sha256, written.writer->Finish(std::move(manifest)));
      return written;
    };
    auto result = std::make_shared<absl::StatusOr<Written>>(write());
    return [this, alive, result] {
      if (*alive) OnWritten(std::move(*result));
    };
  });
}

void CommandCheckpoints::OnWritten(absl::StatusOr<Written> written) {
  if (!written.ok()) return Fail(written.status());
  written_ = std::make_shared<Written>(*std::move(written));
  TryPublish();
}

void CommandCheckpoints::TryPublish() {
  if (written_ == nullptr || publishing_ || !callbacks_.may_publish()) return;
  publishing_ = true;
  background_.Enqueue([this, alive = alive_, written = written_]() -> BackgroundThread::Completion {
    const absl::Status status = written->writer->Publish();
    return [this, alive, status] {
      if (*alive) OnPublished(status);
    };
  });
}

void CommandCheckpoints::OnPublished(const absl::Status& status) {
  publishing_ = false;
  const std::shared_ptr<Written> written = std::exchange(written_, nullptr);
  if (!status.ok()) return Fail(status);
  v1::CheckpointEvent event = MakeEvent(v1::CheckpointEvent::COMMIT);
  event.set_path(written->writer->published_path());
  event.set_manifest_sha256(written->manifest_sha256);
  event.set_bytes(written->writer->bytes());
  callbacks_.report(std::move(event));
  unacknowledged_.push_back(std::move(current_));
  StartNext();
}

void CommandCheckpoints::Fail(const absl::Status& status) {
  Log(LogLevel::kWarning, "command_checkpoint_failed",
      {{"job", options_.fence.job_id()},
       {"step", current_.line.step},
       {"error", status.ToString()}});
  v1::CheckpointEvent event = MakeEvent(v1::CheckpointEvent::FAILED);
  event.set_message(std::string(status.message()));
  callbacks_.report(std::move(event));
  callbacks_.answer(current_.connection,
                    {.step = current_.line.step, .error = std::string(status.message())});
  StartNext();
}

void CommandCheckpoints::OnAck(int64_t step, const std::string& error) {
  const auto it = std::find_if(unacknowledged_.begin(), unacknowledged_.end(),
                               [&](const Offered& one) { return one.line.step == step; });
  if (it == unacknowledged_.end()) return;
  callbacks_.answer(it->connection, {.step = step, .error = error});
  unacknowledged_.erase(it);
}

v1::CheckpointEvent CommandCheckpoints::MakeEvent(v1::CheckpointEvent::Kind kind) const {
  const CheckpointLine& line = current_.line;
  v1::CheckpointEvent event;
  *event.mutable_fence() = options_.fence;
  event.set_kind(kind);
  event.set_step(line.step);
  event.set_epoch(std::isfinite(line.epoch) ? line.epoch : 0);
  event.set_best(line.best);
  for (const auto& [name, value] : line.metrics) (*event.mutable_metrics())[name] = value;
  return event;
}

}  // namespace muster::worker
