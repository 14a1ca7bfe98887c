// The Control stream over gRPC, as a session wants it.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "worker/agent/base/event_loop.h"
#include "worker/agent/connection/control_connection.h"

namespace muster::worker {

// `loop` outlives the connector and what it makes.
ControlConnector MakeGrpcControl(EventLoop& loop, const std::shared_ptr<grpc::Channel>& channel,
                                 std::string token);

}  // namespace muster::worker
