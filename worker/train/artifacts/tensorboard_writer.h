// Writes what rank 0 reports into a TensorBoard event file as well, on its way to the agent.
//
// A RunHost in front of another; one thread. When the file cannot be written, that is logged
// once and training goes on without it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "common/fs/file_system.h"
#include "worker/train/artifacts/event_file.h"
#include "worker/train/run/run_host.h"

namespace muster::worker {

class TensorBoardWriter final : public RunHost {
 public:
  // The file is made in `folder` at the first report; `attempt` is part of its name. `fs` and
  // `next` must outlive it.
  TensorBoardWriter(FileSystem& fs, RunHost& next, std::string folder, uint32_t attempt)
      : fs_(fs), next_(next), folder_(std::move(folder)), attempt_(attempt) {}

  RequestedStop requested_stop() override { return next_.requested_stop(); }
  void Progress(const std::string& phase, int64_t step, int64_t total_steps,
                double epoch) override {
    if (file_ == nullptr) done_before_ = step;
    next_.Progress(phase, step, total_steps, epoch);
  }
  void KeepAlive() override { next_.KeepAlive(); }
  void MemoryEstimated(const std::string& need) override { next_.MemoryEstimated(need); }
  void Metrics(int64_t step, const std::map<std::string, double>& values) override;
  void CorruptCheckpoint(const std::string& path, int64_t step,
                         const std::string& message) override {
    next_.CorruptCheckpoint(path, step, message);
  }
  void UnreadCheckpoint(const std::string& path, int64_t step,
                        const std::string& message) override {
    next_.UnreadCheckpoint(path, step, message);
  }

 private:
  absl::Status Write(int64_t step, const std::map<std::string, double>& values);

  FileSystem& fs_;
  RunHost& next_;
  const std::string folder_;
  const uint32_t attempt_;
  int64_t done_before_ = 0;  // steps of earlier attempts, whose events stay
  std::unique_ptr<EventFile> file_;
  bool given_up_ = false;
};

}  // namespace muster::worker
