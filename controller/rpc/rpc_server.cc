#include "controller/rpc/rpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/os/host_port.h"
#include "common/rpc/channel.h"

namespace muster::controller {
namespace {

constexpr int kMaxMetadataBytes = 8 << 10;
constexpr int kMaxStreams = 128;  // on one connection
// Reflection alone still runs on threads of gRPC's own, one a stream: calls of ours use the
// callback API. Beyond so many threads a stream ends with RESOURCE_EXHAUSTED.
constexpr int kMinSyncPollers = 1;
constexpr int kMaxSyncPollers = 2;
constexpr int kMaxSyncThreads = 8;

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

void SetLimits(const RpcServerOptions& options, grpc::ServerBuilder& builder) {
  AllowClientPings(builder, options.ping_interval);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options.ping_interval));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(options.ping_timeout));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             Milliseconds(options.handshake_timeout));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, Milliseconds(options.max_idle));
  // Books on every connection and call, for a service that is not offered.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
  builder.SetMaxReceiveMessageSize(options.max_receive_bytes);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, kMinSyncPollers);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, kMaxSyncPollers);
  grpc::ResourceQuota quota(options.name);
  quota.Resize(options.memory_bytes);
  quota.SetMaxThreads(kMaxSyncThreads);
  builder.SetResourceQuota(quota);
}

CallCheck CheckOf(const RpcServerOptions& options) {
  return [check = options.check](absl::string_view path, absl::string_view authorization) {
    const bool free = check == nullptr || path == HealthService::kCheckPath;
    return free ? absl::OkStatus() : check(path, authorization);
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(
    const RpcServerOptions& options, const std::vector<grpc::Service*>& services) {
  MUSTER_RETURN_IF_ERROR(ParseHostPort(options.listen).status());
  std::unique_ptr<RpcServer> started(new RpcServer());
  auto listener =
      ConnectionListener::Listen(options.name, options.listen, options.connections, options.open);
  if (!listener.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(options.listen, ": cannot listen here for ", options.name,
                     "; is the port taken, or the address not this machine's? (",
                     listener.status().message(), ")"));
  }
  started->listener_ = *std::move(listener);
  // Both are switches of the whole process; turning them again is harmless.
  grpc::EnableDefaultHealthCheckService(false);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  SetLimits(options, builder);
  using Builder = grpc::ServerBuilder::experimental_type;
  started->acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      Builder::ExternalConnectionType::FROM_FD,
      MakeCheckedCredentials(options.security, CheckOf(options)));
  for (grpc::Service* service : services) builder.RegisterService(service);
  builder.RegisterCallbackGenericService(&started->health_);
  started->server_ = builder.BuildAndStart();
  if (started->server_ == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(options.listen, ": gRPC cannot start to serve ", options.name));
  }
  started->listener_->Start([acceptor = started->acceptor_.get()](int listener_fd, UniqueFd fd) {
    Acceptor::NewConnectionParameters connection;
    connection.listener_fd = listener_fd;
    connection.fd = fd.Release();
    acceptor->HandleNewConnection(&connection);
  });
  return started;
}

std::shared_ptr<grpc::Channel> RpcServer::InProcessChannel() {
  return server_->InProcessChannel(grpc::ChannelArguments());
}

RpcServer::~RpcServer() { Stop(absl::ZeroDuration()); }

void RpcServer::Stop(absl::Duration grace) {
  if (server_ == nullptr) return;
  health_.SetServing(false);
  listener_->Stop();
  server_->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMicroseconds(grace));
  server_->Wait();
  server_.reset();
}

}  // namespace muster::controller
