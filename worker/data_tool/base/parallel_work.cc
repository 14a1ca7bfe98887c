#include "worker/data_tool/base/parallel_work.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "worker/data_tool/base/interruption.h"

namespace muster::worker {
namespace {

class Failure {
 public:
  void Keep(absl::Status status) {
    MutexLock lock(mutex_);
    if (status_.ok()) status_ = std::move(status);
    failed_ = true;
  }
  bool failed() const { return failed_; }
  absl::Status status() {
    MutexLock lock(mutex_);
    return status_;
  }

 private:
  std::atomic<bool> failed_ = false;
  Mutex mutex_;
  absl::Status status_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace

int AvailableCores() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

absl::Status DoInParallel(int threads, uint64_t count,
                          absl::FunctionRef<absl::Status(int thread, uint64_t number)> work) {
  std::atomic<uint64_t> next = 0;
  Failure failure;
  const auto run = [&](int thread) {
    while (!failure.failed()) {
      const uint64_t number = next.fetch_add(1);
      if (number >= count) return;
      absl::Status status = CheckInterrupted();
      if (status.ok()) status = work(thread, number);
      if (!status.ok()) failure.Keep(std::move(status));
    }
  };
  if (threads <= 1 || count <= 1) {
    run(0);
    return failure.status();
  }
  const int most = static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(threads), count));
  std::vector<std::thread> others;
  for (int thread = 1; thread < most; ++thread) others.emplace_back(run, thread);
  run(0);
  for (std::thread& other : others) other.join();
  return failure.status();
}

}  // namespace muster::worker
