#include "worker/agent/command/command_checkpoints.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"
#include "common/ckpt/manifest.h"
#include "common/fs/list_some.h"
#include "common/fs/open_beneath.h"
#include "common/os/secrets.h"

namespace muster::worker {
namespace {

constexpr size_t kNonceBytes = 8;
constexpr uint64_t kCopyBytes = 4u << 20;

// What is to be copied: open, and its name in the checkpoint.
struct OfferedFile {
  UniqueFd fd;
  std::string name;
};

// Appends a whole file of what was `offered` to the checkpoint.
absl::Status CopyFile(const OfferedFile& file, const std::string& offered,
                      const std::atomic<bool>& stopping, PathWatch& watch, const ByteSink& sink) {
  std::string buffer(kCopyBytes, '\0');
  for (off_t offset = 0;;) {
    if (stopping) return absl::CancelledError("the agent stops");
    watch.Touch(offered);
    const ssize_t got = ::pread(file.fd.get(), buffer.data(), buffer.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return absl::UnavailableError(
          absl::StrCat("cannot read ", file.name, ": ", ::strerror(errno)));
    }
    if (got == 0) return absl::OkStatus();
    MUSTER_RETURN_IF_ERROR(sink(absl::string_view(buffer.data(), static_cast<size_t>(got))));
    offset += got;
  }
}

// The path as the kernel has it.
std::string TrueName(const UniqueFd& folder) {
  char name[PATH_MAX];
  const std::string link = absl::StrCat("/proc/self/fd/", folder.get());
  const ssize_t got = ::readlink(link.c_str(), name, sizeof name);
  return got > 0 ? std::string(name, static_cast<size_t>(got)) : "";
}

// What of `path` is beneath `root`; nothing when it is not.
std::optional<std::string> Below(absl::string_view path, absl::string_view root) {
  if (!absl::ConsumePrefix(&path, root)) return std::nullopt;
  const bool is_part = absl::EndsWith(root, "/") || absl::ConsumePrefix(&path, "/");
  if (root.empty() || !is_part || path.empty()) return std::nullopt;
  return std::string(path);
}

// Whether it is `inner`, or a folder around that, under whatever name it was opened.
bool IsAround(const UniqueFd& folder, std::string inner) {
  struct stat outer = {};
  if (inner.empty() || ::fstat(folder.get(), &outer) != 0) return false;
  for (; !inner.empty(); inner.resize(inner.rfind('/'))) {
    struct stat info = {};
    const bool same = ::stat(inner.c_str(), &info) == 0 && info.st_dev == outer.st_dev &&
                      info.st_ino == outer.st_ino;
    if (same) return true;
  }
  struct stat top = {};
  return ::stat("/", &top) == 0 && top.st_dev == outer.st_dev && top.st_ino == outer.st_ino;
}

// As OpenBeneath, in whichever of the roots it is.
absl::StatusOr<UniqueFd> OpenOffered(const std::string& path, const std::vector<std::string>& roots,
                                     const std::string& ranks_root) {
  for (const std::string& root : roots) {
    const absl::StatusOr<UniqueFd> folder = OpenFolder(root);
    if (!folder.ok()) continue;
    std::optional<std::string> below = Below(path, root);
    if (!below.has_value()) below = Below(path, TrueName(*folder));
    if (!below.has_value()) continue;
    if (IsAround(*folder, ranks_root)) {
      return absl::PermissionDeniedError(absl::StrCat(
          path, ": no checkpoint is taken from ", root,
          ", since the agent's own files are below that; write it in MUSTER_CHECKPOINT_DIR, or "
          "name another command.workdir"));
    }
    absl::StatusOr<UniqueFd> fd =
        OpenBeneath(folder->get(), *below, O_RDONLY, Links::kInside, Mounts::kEntered);
    if (fd.ok()) return fd;
    return absl::Status(fd.status().code(), absl::StrCat(path, ": ", fd.status().message()));
  }
  return absl::PermissionDeniedError(
      absl::StrCat(path, " is in none of the folders from which checkpoints are taken (",
                   absl::StrJoin(roots, ", "), "); write it in MUSTER_CHECKPOINT_DIR"));
}

// A regular file, or INVALID_ARGUMENT.
absl::Status CheckFile(const UniqueFd& fd, const std::string& path) {
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0 || S_ISREG(info.st_mode)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, S_ISDIR(info.st_mode) ? " is a folder" : " is no regular file",
                   "; a checkpoint is a file or a folder of files"));
}

// What the manifest could not name would be condemned after it was called committed.
absl::Status CheckName(const std::string& name, const std::string& path) {
  const absl::Status good = CheckFileName(name);
  if (good.ok()) return good;
  return absl::Status(good.code(), absl::StrCat(path, ": ", good.message()));
}

// Of the checkpoint that the folder is already, of another job say: this one gets its own.
bool IsFormerManifest(const UniqueFd& folder, const std::string& name) {
  if (name != kManifestFile) return false;
  const absl::StatusOr<UniqueFd> fd =
      OpenBeneath(folder.get(), name, O_RDONLY, Links::kInside, Mounts::kEntered);
  struct stat info = {};
  if (!fd.ok() || ::fstat(fd->get(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  const auto bytes = static_cast<uint64_t>(info.st_size);
  if (bytes > kMaxManifestBytes) return false;
  std::string text(bytes, '\0');
  const ssize_t got = ::pread(fd->get(), text.data(), text.size(), 0);
  return got == info.st_size && DecodeManifest(text).ok();
}

absl::StatusOr<std::vector<OfferedFile>> FilesOf(const std::string& path,
                                                 const std::vector<std::string>& roots,
                                                 const std::string& ranks_root, PathWatch& watch) {
  std::vector<OfferedFile> files;
  MUSTER_ASSIGN_OR_RETURN(UniqueFd offered, OpenOffered(path, roots, ranks_root));
  struct stat info = {};
  if (::fstat(offered.get(), &info) == 0 && !S_ISDIR(info.st_mode)) {
    const std::string name = path.substr(path.rfind('/') + 1);
    MUSTER_RETURN_IF_ERROR(CheckName(name, path));
    MUSTER_RETURN_IF_ERROR(CheckFile(offered, path));
    files.push_back({std::move(offered), name});
    return files;
  }
  MUSTER_ASSIGN_OR_RETURN(const std::vector<FileInfo> listed,
                          ListSome(offered, path, kMaxManifestFiles + 1));
  for (const FileInfo& file : listed) {
    if (IsFormerManifest(offered, file.name)) continue;
    // First, as what is said of the file from here on shows its name as it is.
    MUSTER_RETURN_IF_ERROR(CheckName(file.name, path));
    const std::string inside = absl::StrCat(path, "/", file.name);
    watch.Touch(inside);
    absl::StatusOr<UniqueFd> fd =
        OpenBeneath(offered.get(), file.name, O_RDONLY, Links::kInside, Mounts::kEntered);
    if (!fd.ok()) {
      return absl::Status(fd.status().code(), absl::StrCat(inside, ": ", fd.status().message()));
    }
    MUSTER_RETURN_IF_ERROR(CheckFile(*fd, inside));
    files.push_back({*std::move(fd), file.name});
  }
  return files;
}

absl::Status CheckCount(const std::vector<OfferedFile>& files, const std::string& path) {
  if (!files.empty() && files.size() <= kMaxManifestFiles) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, " holds ", files.size(), " files; 1 to ", kMaxManifestFiles));
}

}  // namespace

CommandCheckpoints::CommandCheckpoints(FileSystem& fs, SideThreads& threads, Options options,
                                       Callbacks callbacks)
    : fs_(fs), threads_(threads), options_(std::move(options)), callbacks_(std::move(callbacks)) {}

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
  watch_ = std::make_shared<PathWatch>();
  Enqueue([this, alive = alive_, turn = ++turn_, &fs = fs_, &threads = threads_,
           stopping = threads_.stopping(), watch = watch_, options = options_,
           line = current_.line]() -> SideThreads::Completion {
    // Off the loop: nothing of *this is touched here.
    const auto written = std::make_shared<Written>();
    written->watch = watch;
    written->files = std::make_unique<JobCheckpointFiles>(fs, watch, options.file_mask);
    const auto write = [&]() -> absl::Status {
      // A folder that is not the root is none to save to.
      MUSTER_RETURN_IF_ERROR(CheckRoot(*written->files, options.holder));
      watch->Touch(line.path);
      MUSTER_ASSIGN_OR_RETURN(const auto files,
                              FilesOf(line.path, options.offer_roots, options.ranks_root, *watch));
      MUSTER_RETURN_IF_ERROR(CheckCount(files, line.path));
      CheckpointFolder folder{line.step, options.fence.attempt(), options.fence.generation(), ""};
      MUSTER_ASSIGN_OR_RETURN(folder.nonce, RandomHex(kNonceBytes));
      MUSTER_ASSIGN_OR_RETURN(written->writer,
                              CheckpointWriter::Create(*written->files, options.root, folder));
      for (const OfferedFile& file : files) {
        MUSTER_RETURN_IF_ERROR(written->writer->AddFile(file.name, [&](const ByteSink& sink) {
          return CopyFile(file, line.path, *stopping, *watch, sink);
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
      MUSTER_ASSIGN_OR_RETURN(written->manifest_sha256,
                              written->writer->Finish(std::move(manifest)));
      return absl::OkStatus();
    };
    const absl::Status status = write();
    if (!status.ok()) written->writer.reset();  // removes it
    return [this, alive, turn, &threads, written, status] {
      if (!*alive || turn != turn_) return Remove(threads, written);
      OnWritten(status.ok() ? absl::StatusOr<WrittenPtr>(written) : status);
    };
  });
}

void CommandCheckpoints::Enqueue(SideThreads::Job job) {
  began_ = false;
  job_ = threads_.Enqueue(std::move(job), watch_, [this, alive = alive_, turn = turn_] {
    if (*alive && turn == turn_) began_ = true;
  });
}

void CommandCheckpoints::Remove(SideThreads& threads, WrittenPtr written) {
  if (written == nullptr || written->writer == nullptr) return;
  threads.Enqueue([written = std::move(written)]() -> SideThreads::Completion {
    written->writer.reset();
    return nullptr;
  });
}

CommandCheckpoints::~CommandCheckpoints() {
  *alive_ = false;
  if (!publishing_) Remove(threads_, std::move(written_));
}

void CommandCheckpoints::GiveUpWhatHangs() {
  if (watch_ == nullptr || watch_->Idle() <= options_.patience) return;
  // What only waits for a thread goes on waiting, unless all of them hang.
  const absl::Status stall =
      began_ ? watch_->Stall() : threads_.TakeBackIfStuck(job_, options_.patience);
  if (stall.ok()) return;
  // A publish that comes about later is found, and taken, by the next attempt.
  publishing_ = false;
  written_ = nullptr;
  Fail(stall);
}

void CommandCheckpoints::OnWritten(absl::StatusOr<WrittenPtr> written) {
  watch_ = nullptr;
  if (!written.ok()) return Fail(written.status());
  written_ = *std::move(written);
  TryPublish();
}

void CommandCheckpoints::TryPublish() {
  if (written_ == nullptr || publishing_ || !callbacks_.may_publish()) return;
  publishing_ = true;
  watch_ = written_->watch;
  watch_->Touch(options_.root);
  Enqueue([this, alive = alive_, turn = turn_, written = written_]() -> SideThreads::Completion {
    const absl::Status status = written->writer->Publish();
    if (!status.ok()) written->writer.reset();  // removes it, unless it may have got its name
    return [this, alive, turn, status] {
      if (*alive && turn == turn_) OnPublished(status);
    };
  });
}

void CommandCheckpoints::OnPublished(const absl::Status& status) {
  watch_ = nullptr;
  publishing_ = false;
  const WrittenPtr written = std::exchange(written_, nullptr);
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
  watch_ = nullptr;
  ++turn_;
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
