// The small key-value store through which the ranks of one gang find each other: Gloo's addresses,
// NCCL's unique id.
//
// In the trainer it is the controller's, reached over the link; keys are already scoped by job,
// attempt and generation. All functions may be called from several threads at once; a Get that
// waits holds nobody up. Knows no torch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace muster::worker {

class KeyValue {
 public:
  virtual ~KeyValue() = default;
  virtual absl::Status Set(const std::string& key, const std::string& value) = 0;
  // Waits until the key is there. DEADLINE_EXCEEDED: it did not come within the timeout;
  // UNAVAILABLE: the store is gone.
  virtual absl::StatusOr<std::string> Get(const std::string& key, absl::Duration timeout) = 0;
  // Adds to a decimal number (absent: 0) and returns the sum. INVALID_ARGUMENT: the value is no
  // number.
  virtual absl::StatusOr<int64_t> Add(const std::string& key, int64_t delta) = 0;
  // Are all keys there now?
  virtual absl::StatusOr<bool> Check(const std::vector<std::string>& keys) = 0;
  // Returns whether the key was there.
  virtual absl::StatusOr<bool> Delete(const std::string& key) = 0;
  // Waits until all keys are there. Codes as Get.
  virtual absl::Status Wait(const std::vector<std::string>& keys, absl::Duration timeout) = 0;
  virtual absl::StatusOr<int64_t> Count() = 0;
};

// Within one process: for a gang of one, for benchmarks and for tests whose ranks are threads.
class MemoryKeyValue final : public KeyValue {
 public:
  absl::Status Set(const std::string& key, const std::string& value) override;
  absl::StatusOr<std::string> Get(const std::string& key, absl::Duration timeout) override;
  absl::StatusOr<int64_t> Add(const std::string& key, int64_t delta) override;
  absl::StatusOr<bool> Check(const std::vector<std::string>& keys) override;
  absl::StatusOr<bool> Delete(const std::string& key) override;
  absl::Status Wait(const std::vector<std::string>& keys, absl::Duration timeout) override;
  absl::StatusOr<int64_t> Count() override;

 private:
  bool HasAllLocked(const std::vector<std::string>& keys) const MUSTER_REQUIRES(mutex_);

  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, std::string> values_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::worker
