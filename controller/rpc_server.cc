#include "controller/rpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "controller/config.h"

namespace muster::controller {
namespace {

constexpr int kMaxMetadataBytes = 8 << 10;
constexpr int kMaxStreams = 128;  // on one connection
// Health and reflection alone still run on threads of gRPC's own: calls of ours use the callback
// API.
constexpr int kMinSyncThreads = 1;
constexpr int kMaxSyncThreads = 2;

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
  // Without this a second musterd would share the port instead of being told that it is taken.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Books on every connection and call, for a service that is not offered.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
  builder.SetMaxReceiveMessageSize(options.max_receive_bytes);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, kMinSyncThreads);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, kMaxSyncThreads);
  builder.SetResourceQuota(grpc::ResourceQuota(options.name).Resize(options.memory_bytes));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(
    const RpcServerOptions& options, const std::vector<grpc::Service*>& services) {
  MUSTER_ASSIGN_OR_RETURN(HostPort address, ParseHostPort(options.listen));
  // Both are switches of the whole process; turning them on twice is harmless.
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  SetLimits(options, builder);
  int port = 0;
  builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(), &port);
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(options.listen, ": cannot listen here for ", options.name,
                     "; is the port taken, or the address not this machine's?"));
  }
  address.port = port;
  return std::unique_ptr<RpcServer>(new RpcServer(std::move(server), JoinHostPort(address)));
}

RpcServer::~RpcServer() { Stop(absl::ZeroDuration()); }

void RpcServer::Stop(absl::Duration grace) {
  if (server_ == nullptr) return;
  if (auto* health = server_->GetHealthCheckService()) health->SetServingStatus(false);
  server_->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMicroseconds(grace));
  server_->Wait();
  server_.reset();
}

}  // namespace muster::controller
