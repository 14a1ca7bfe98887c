// One gRPC server with services of ours, health and reflection, and the bounds that an open port
// needs. It takes its connections itself (connection_listener.h), and knows who calls before it
// reads what they say (checked_credentials.h).
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/peer_limits.h"
#include "controller/rpc/checked_credentials.h"
#include "controller/rpc/connection_listener.h"
#include "controller/rpc/health_service.h"
#include "controller/rpc/open_connections.h"

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
  // A connection without any call for so long is closed; clients of ours then connect anew.
  absl::Duration max_idle = absl::Minutes(10);
  ConnectionBounds connections = {};
  // Those that are open; who knows their callers tells it (OpenConnections::Know). Not null.
  std::shared_ptr<OpenConnections> open = std::make_shared<OpenConnections>();
  ConnectionSecurity security = {};
  // Of every call but that of health; null: all may.
  CallCheck check = nullptr;
};

class RpcServer {
 public:
  // Binds and serves. FAILED_PRECONDITION: the address cannot be bound; the message names it.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(
      const RpcServerOptions& options, const std::vector<grpc::Service*>& services);
  ~RpcServer();  // stops at once

  // Takes no new calls, waits up to `grace` for those under way, then cancels them. Idempotent.
  void Stop(absl::Duration grace);

  // To the same services, for callers in this process. Their calls meet no `check`: handlers see to
  // who may call. After Stop they are UNAVAILABLE.
  std::shared_ptr<grpc::Channel> InProcessChannel();

  const std::string& address() const { return listener_->address(); }  // as bound
  const ConnectionListener& listener() const { return *listener_; }

 private:
  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

  RpcServer() = default;

  HealthService health_;
  std::unique_ptr<ConnectionListener> listener_;
  std::unique_ptr<Acceptor> acceptor_;  // the listener's thread alone calls it
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace muster::controller
