#include "worker/dist/base/key_value.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/deadline.h"
#include "common/base/status_macros.h"

namespace muster::worker {

absl::Status MemoryKeyValue::Set(const std::string& key, const std::string& value) {
  MutexLock lock(mutex_);
  values_[key] = value;
  changed_.NotifyAll();
  return absl::OkStatus();
}

absl::StatusOr<std::string> MemoryKeyValue::Get(const std::string& key, absl::Duration timeout) {
  MUSTER_RETURN_IF_ERROR(Wait({key}, timeout));
  MutexLock lock(mutex_);
  const auto it = values_.find(key);
  if (it == values_.end()) {
    return absl::NotFoundError(absl::StrCat("rendezvous key ", key, " was deleted meanwhile"));
  }
  return it->second;
}

absl::StatusOr<int64_t> MemoryKeyValue::Add(const std::string& key, int64_t delta) {
  MutexLock lock(mutex_);
  int64_t value = 0;
  const auto it = values_.find(key);
  if (it != values_.end() && !absl::SimpleAtoi(it->second, &value)) {
    return absl::InvalidArgumentError(absl::StrCat("rendezvous key ", key, " holds no number"));
  }
  value += delta;
  values_[key] = std::to_string(value);
  changed_.NotifyAll();
  return value;
}

absl::StatusOr<bool> MemoryKeyValue::Check(const std::vector<std::string>& keys) {
  MutexLock lock(mutex_);
  return HasAllLocked(keys);
}

absl::StatusOr<bool> MemoryKeyValue::Delete(const std::string& key) {
  MutexLock lock(mutex_);
  return values_.erase(key) > 0;
}

absl::Status MemoryKeyValue::Wait(const std::vector<std::string>& keys, absl::Duration timeout) {
  const Deadline deadline(timeout);
  MutexLock lock(mutex_);
  while (!HasAllLocked(keys)) {
    if (deadline.over()) {
      return absl::DeadlineExceededError(
          absl::StrCat("rendezvous keys did not come: ", absl::StrJoin(keys, ", ")));
    }
    changed_.WaitFor(mutex_, deadline.left());
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> MemoryKeyValue::Count() {
  MutexLock lock(mutex_);
  return static_cast<int64_t>(values_.size());
}

bool MemoryKeyValue::HasAllLocked(const std::vector<std::string>& keys) const {
  for (const std::string& key : keys) {
    if (values_.count(key) == 0) return false;
  }
  return true;
}

}  // namespace muster::worker
