#include "worker/dist/c10d_store.h"

#include <c10/util/Exception.h>

namespace muster::worker {
namespace {

template <typename T>
T ValueOrThrow(absl::StatusOr<T> result) {
  ThrowUnlessOk(result.status());
  return *std::move(result);
}

}  // namespace

void ThrowUnlessOk(const absl::Status& status) {
  TORCH_CHECK_WITH(DistStoreError, status.ok(), "rendezvous store: ", status.ToString());
}

c10::intrusive_ptr<c10d::Store> C10dStore::clone() {
  return c10::make_intrusive<C10dStore>(key_value_, prefix_, timeout_);
}

void C10dStore::set(const std::string& key, const std::vector<uint8_t>& value) {
  ThrowUnlessOk(key_value_->Set(prefix_ + key, std::string(value.begin(), value.end())));
}

std::vector<uint8_t> C10dStore::get(const std::string& key) {
  const std::string value =
      ValueOrThrow(key_value_->Get(prefix_ + key, absl::FromChrono(timeout_)));
  return std::vector<uint8_t>(value.begin(), value.end());
}

int64_t C10dStore::add(const std::string& key, int64_t value) {
  return ValueOrThrow(key_value_->Add(prefix_ + key, value));
}

bool C10dStore::deleteKey(const std::string& key) {
  return ValueOrThrow(key_value_->Delete(prefix_ + key));
}

bool C10dStore::check(const std::vector<std::string>& keys) {
  return ValueOrThrow(key_value_->Check(Prefixed(keys)));
}

int64_t C10dStore::getNumKeys() { return ValueOrThrow(key_value_->Count()); }

void C10dStore::wait(const std::vector<std::string>& keys) { wait(keys, timeout_); }

void C10dStore::wait(const std::vector<std::string>& keys,
                     const std::chrono::milliseconds& timeout) {
  ThrowUnlessOk(key_value_->Wait(Prefixed(keys), absl::FromChrono(timeout)));
}

std::vector<std::string> C10dStore::Prefixed(const std::vector<std::string>& keys) const {
  std::vector<std::string> prefixed;
  prefixed.reserve(keys.size());
  for (const std::string& key : keys) prefixed.push_back(prefix_ + key);
  return prefixed;
}

}  // namespace muster::worker
