// The link to the agent in the shapes that training knows: a key-value store, a publisher of
// checkpoints, a host.
//
// Thin: each call is one or two lines on the link. Thread-safe as the link is, but for the
// host. The link must outlive them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "worker/checkpoint/publisher.h"
#include "worker/dist/base/key_value.h"
#include "worker/train/run/run_host.h"
#include "worker/trainer/rank/link_client.h"

namespace muster::worker {

// The gang's rendezvous store, kept by the controller.
class LinkKeyValue final : public KeyValue {
 public:
  explicit LinkKeyValue(LinkClient& link) : link_(link) {}
  absl::Status Set(const std::string& key, const std::string& value) override;
  absl::StatusOr<std::string> Get(const std::string& key, absl::Duration timeout) override;
  absl::StatusOr<int64_t> Add(const std::string& key, int64_t delta) override;
  absl::StatusOr<bool> Check(const std::vector<std::string>& keys) override;
  absl::StatusOr<bool> Delete(const std::string& key) override;
  absl::Status Wait(const std::vector<std::string>& keys, absl::Duration timeout) override;
  absl::StatusOr<int64_t> Count() override;

 private:
  LinkClient& link_;
};

class LinkPublisher final : public Publisher {
 public:
  explicit LinkPublisher(LinkClient& link) : link_(link) {}
  void Begin(int64_t step) override;
  absl::Status AwaitPublish(const CheckpointNews& news) override;
  absl::Status AwaitCommitted(const CheckpointNews& news) override;
  void Failed(int64_t step, const absl::Status& status) override;
  void Supersede(int64_t step) override { link_.Supersede(step); }

 private:
  LinkClient& link_;
};

// Progress and KeepAlive are for one thread.
class LinkHost final : public RunHost {
 public:
  explicit LinkHost(LinkClient& link) : link_(link) {}
  RequestedStop requested_stop() override;
  void Progress(const std::string& phase, int64_t step, int64_t total_steps, double epoch) override;
  void KeepAlive() override;
  void MemoryEstimated(const std::string& need) override;
  void Metrics(int64_t step, const std::map<std::string, double>& values) override;
  void CorruptCheckpoint(const std::string& path, int64_t step,
                         const std::string& message) override;
  void UnreadCheckpoint(const std::string& path, int64_t step, const std::string& message) override;

 private:
  LinkClient& link_;
  ProgressLine progress_;  // the last one
};

}  // namespace muster::worker
