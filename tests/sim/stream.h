// The controller's end of one Control stream, without gRPC: the same conversation as
// controller/api/streams/control_stream.cc, over a simulated wire.
#pragma once

#include <memory>
#include <string>

#include "controller/api/convert/convert.h"
#include "controller/engine/engine.h"
#include "controller/engine/worker_link.h"
#include "controller/metrics/metrics_ingest.h"
#include "tests/sim/network.h"

namespace muster::sim {

namespace mc = ::muster::controller;

// What a stream needs of its controller.
class StreamHost {
 public:
  virtual ~StreamHost() = default;
  virtual mc::Engine* engine() = 0;         // null: it is down
  virtual mc::MetricsIngest* ingest() = 0;  // likewise, and where no metrics are kept
  virtual uint64_t life() const = 0;        // +1 at each start
  // True while what leaves the controller still leaves it: it has not crashed meanwhile.
  virtual bool MayEmit() = 0;
  // Something was posted: it is applied soon.
  virtual void Wake() = 0;
  virtual void WakeIngest() = 0;  // likewise
  // For the invariants: how a numbered report, or a Hello, was answered.
  virtual void OnHelloAnswered(const mc::WorkerHello& hello, const mc::EventResult& result) = 0;
  virtual void OnHeartbeatAnswered(const std::string& worker, const mc::EventResult& result) = 0;
  virtual void OnReportAnswered(const mc::Fence& fence, const v1::WorkerMessage& message,
                                const std::string& worker, const std::string& incarnation,
                                const mc::EventResult& result) = 0;
};

// To a connection of a former life: another process listens there now and knows no such one.
void TellReset(StreamHost& host, const std::shared_ptr<Wire>& wire);

class ServerStream final : public mc::WorkerLink,
                           public std::enable_shared_from_this<ServerStream> {
 public:
  ServerStream(StreamHost& host, std::shared_ptr<Wire> wire,
               std::function<void(const v1::ControllerMessage&)> at_agent)
      : host_(host), life_(host.life()), wire_(std::move(wire)), at_agent_(std::move(at_agent)) {}

  void OnMessage(const v1::WorkerMessage& message);
  // The wire broke, or the agent went away.
  void OnGone();

  void Send(const mc::Assignment& assignment) override { Write(mc::ToProto(assignment)); }
  void Close(const absl::Status& status) override;

 private:
  absl::Status Handle(const v1::WorkerMessage& message);
  void HandleHello(const v1::Hello& hello);
  void HandleStore(const v1::StoreRequest& request);
  void PostReport(mc::Event event, const mc::Fence& fence, const v1::WorkerMessage& message);
  void Write(v1::ControllerMessage message);
  void Answered(const absl::Status& status);
  void AnsweredReport(const mc::EventResult& result);
  void Disconnect();

  // The controller that this stream belongs to still runs.
  bool HostLives() { return host_.engine() != nullptr && host_.life() == life_; }

  StreamHost& host_;
  const uint64_t life_;
  const std::shared_ptr<Wire> wire_;
  const std::function<void(const v1::ControllerMessage&)> at_agent_;
  std::string worker_;
  std::string incarnation_;
  bool connected_ = false;
  bool ended_ = false;
  bool owes_repeat_ = false;  // a report found no room on the disk
};

}  // namespace muster::sim
