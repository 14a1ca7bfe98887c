// Scales a pool by a program of the user's, as of a cloud's group: exact argv, no shell.
//
// It gets MUSTER_POOL, MUSTER_WORKERS (as asked for so far), MUSTER_WANTED (from now on),
// MUSTER_LEAVING and MUSTER_STAYING (names of workers, with spaces between) in its environment. It
// is to see to it that there are MUSTER_WANTED workers, ends none but those of MUSTER_LEAVING, and
// exits with 0; the same call may come again. Any other end is a failure. It has /dev/null as its
// input. At its deadline, when it fails and when musterd stops it is killed with all of its process
// group; what it leaves running when it exits with 0 stays. What it prints is kept up to a bound
// for the error.
#pragma once

#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "controller/autoscale/scaler.h"

namespace muster::controller {

class CommandScaler final : public Scaler {
 public:
  static constexpr absl::Duration kDeadline = absl::Seconds(60);

  // `argv`: not empty.
  CommandScaler(std::string pool, std::vector<std::string> argv,
                absl::Duration deadline = kDeadline)
      : pool_(std::move(pool)), argv_(std::move(argv)), deadline_(deadline) {}

  absl::StatusOr<std::optional<uint32_t>> Asked() override { return std::nullopt; }
  // FAILED_PRECONDITION: it could not be started, or did not exit with 0; DEADLINE_EXCEEDED.
  absl::Status ScaleTo(const PoolDecision& decision) override MUSTER_EXCLUDES(mutex_);
  void Stop() override MUSTER_EXCLUDES(mutex_);

 private:
  std::vector<std::string> Environment(const PoolDecision& decision) const;

  const std::string pool_;
  const std::vector<std::string> argv_;
  const absl::Duration deadline_;
  Mutex mutex_;
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
};

}  // namespace muster::controller
