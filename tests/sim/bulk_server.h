// The controller's end of one Bulk stream, without gRPC: the same conversation as
// controller/api/streams/bulk_stream.cc, over a simulated wire.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tests/sim/stream.h"

namespace muster::sim {

class BulkServer final : public std::enable_shared_from_this<BulkServer> {
 public:
  BulkServer(StreamHost& host, std::shared_ptr<Wire> wire,
             std::function<void(const v1::BulkAck&)> at_agent)
      : host_(host), life_(host.life()), wire_(std::move(wire)), at_agent_(std::move(at_agent)) {}

  void OnBatch(const v1::BulkBatch& batch);
  // The wire broke, or the agent went away.
  void OnGone() { ended_ = true; }

 private:
  absl::Status CheckSender(const v1::BulkBatch& batch);
  absl::Status Submit(const v1::BulkBatch& batch);
  void Stored(uint64_t batch_id, const absl::Status& status);
  void Close(const absl::Status& status);
  bool HostLives() { return host_.engine() != nullptr && host_.life() == life_; }

  StreamHost& host_;
  const uint64_t life_;
  const std::shared_ptr<Wire> wire_;
  const std::function<void(const v1::BulkAck&)> at_agent_;
  bool said_hello_ = false;
  std::string worker_;
  std::string incarnation_;
  uint64_t last_batch_id_ = 0;
  bool ended_ = false;
};

}  // namespace muster::sim
