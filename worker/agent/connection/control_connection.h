// One conversation on the Control stream, as the session sees it: gRPC in the agent
// (grpc_control.h), a simulated network in muster_sim.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::worker {

class ControlConnection {
 public:
  virtual ~ControlConnection() = default;
  virtual void Send(v1::WorkerMessage message) = 0;
  // The same from any thread, also while the loop's stands still. Where there is one thread only,
  // nobody calls it.
  virtual void SendFromAnyThread(v1::WorkerMessage) {}
  // Safe at any time and more than once; afterwards no handler is called.
  virtual void Close() = 0;
};

struct ControlHandlers {
  std::function<void(const v1::ControllerMessage&)> on_message;
  std::function<void(absl::Status)> on_end;  // once, unless Close came first
};
// Begins a conversation.
using ControlConnector = std::function<std::shared_ptr<ControlConnection>(ControlHandlers)>;

}  // namespace muster::worker
