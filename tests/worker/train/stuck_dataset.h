// Samples of which one is never there: its read waits until reads are cancelled, as that from a
// server which does not answer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/fs/file_system.h"
#include "worker/data/base/dataset.h"

namespace muster::testing {

class StuckDataset final : public worker::Dataset {
 public:
  // Of `whole`, sample `id` of `split`. `on_stuck` is called when somebody begins to wait for it.
  StuckDataset(std::unique_ptr<Dataset> whole, worker::Split split, int64_t id,
               std::function<void()> on_stuck)
      : Dataset(whole->shape(), {whole->input_type(), whole->target_type(), whole->target_shape()},
                whole->classes(), whole->fingerprint(), whole->pixels()),
        whole_(std::move(whole)),
        split_(split),
        id_(id),
        on_stuck_(std::move(on_stuck)) {}

  int64_t size(worker::Split split) const override { return whole_->size(split); }
  absl::StatusOr<worker::StoredSample> Read(worker::Split split, int64_t id,
                                            std::string& storage) const override {
    if (split != split_ || id != id_) return whole_->Read(split, id, storage);
    on_stuck_();
    door_.WaitForCancel();
    return absl::CancelledError("cancelled");
  }
  bool in_files() const override { return true; }
  FileSystem* files() const override { return &door_; }
  int64_t bytes() const override { return whole_->bytes(); }

 private:
  class Door final : public FileSystem {
   public:
    void WaitForCancel() {
      MutexLock lock(mutex_);
      while (!is_cancelled_) changed_.Wait(mutex_);
    }
    void Cancel() override {
      MutexLock lock(mutex_);
      is_cancelled_ = true;
      changed_.NotifyAll();
    }
    std::string Trouble() override { return "HTTP 503"; }

    absl::StatusOr<std::unique_ptr<WritableFile>> CreateExclusive(const std::string&,
                                                                  uint32_t) override {
      return No();
    }
    absl::StatusOr<std::string> ReadFile(const std::string&, uint64_t) override { return No(); }
    absl::StatusOr<uint64_t> ReadAt(const std::string&, uint64_t, char*, uint64_t) override {
      return No();
    }
    absl::StatusOr<uint64_t> FileSize(const std::string&) override { return No(); }
    absl::StatusOr<bool> Exists(const std::string&) override { return No(); }
    absl::StatusOr<std::vector<FileInfo>> List(const std::string&) override { return No(); }
    absl::Status MakeDirectories(const std::string&) override { return No(); }
    absl::Status Rename(const std::string&, const std::string&) override { return No(); }
    absl::Status SyncDirectory(const std::string&) override { return No(); }
    absl::Status RemoveFile(const std::string&) override { return No(); }
    absl::Status RemoveTree(const std::string&) override { return No(); }

   private:
    static absl::Status No() { return absl::UnimplementedError("there are no files"); }

    Mutex mutex_;
    CondVar changed_;
    bool is_cancelled_ MUSTER_GUARDED_BY(mutex_) = false;
  };

  const std::unique_ptr<Dataset> whole_;
  const worker::Split split_;
  const int64_t id_;
  const std::function<void()> on_stuck_;
  mutable Door door_;
};

}  // namespace muster::testing
