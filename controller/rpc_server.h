// One gRPC server with one service of ours, health and reflection, and the bounds that an open port
// needs.
#pragma once

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/peer_limits.h"

namespace muster::controller {

struct RpcServerOptions {
  const char* name = "";      // for the resource quota and messages
  std::string listen;         // HOST:PORT; port 0 picks one
  int max_receive_bytes = 0;  // of one message
  size_t memory_bytes = 0;    // for all buffers of all calls; above it, calls wait or fail
  // A connection on which nothing has come for so long is pinged, and closed when no answer comes
  // in time. Clients may ping as often.
  absl::Duration ping_interval = kPingInterval;
  absl::Duration ping_timeout = kPingTimeout;
  // What has connected and not spoken HTTP/2 by then is closed.
  absl::Duration handshake_timeout = absl::Seconds(10);
};

class RpcServer {
 public:
  // Binds and serves. FAILED_PRECONDITION: the address cannot be bound; the message names it.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(
      const RpcServerOptions& options, const std::vector<grpc::Service*>& services);
  ~RpcServer();  // stops at once

  // Takes no new calls, waits up to `grace` for those under way, then cancels them. Idempotent.
  void Stop(absl::Duration grace);

  const std::string& address() const { return address_; }  // as bound

 private:
  RpcServer(std::unique_ptr<grpc::Server> server, std::string address)
      : server_(std::move(server)), address_(std::move(address)) {}

  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace muster::controller
