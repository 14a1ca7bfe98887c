// c10d's view of a KeyValue: what Gloo and NCCL boot through.
//
// A failed or timed-out operation throws c10::DistStoreError, as c10d expects. Thread-safe as the
// KeyValue is. Must outlive every process group made with it (an intrusive_ptr sees to that).
#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "absl/status/status.h"
#include "worker/dist/base/key_value.h"

namespace muster::worker {

// Throws c10::DistStoreError.
void ThrowUnlessOk(const absl::Status& status);

class C10dStore final : public c10d::Store {
 public:
  C10dStore(std::shared_ptr<KeyValue> key_value, std::string prefix,
            std::chrono::milliseconds timeout)
      : c10d::Store(timeout), key_value_(std::move(key_value)), prefix_(std::move(prefix)) {}

  using c10d::Store::set;
  c10::intrusive_ptr<c10d::Store> clone() override;
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;
  bool hasExtendedApi() const override { return false; }

 private:
  std::vector<std::string> Prefixed(const std::vector<std::string>& keys) const;

  const std::shared_ptr<KeyValue>
      key_value_;  // shared with the trainer, which closes the link after the group
  const std::string prefix_;
};

}  // namespace muster::worker
