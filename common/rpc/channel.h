// How clients of ours (the agent, the CLI, and tests) connect, and what a server must grant so that
// these may stay connected.
//
// A channel pings an idle connection, so that a peer that vanished without a word is noticed within
// half a minute, and reconnects quickly, since controllers come back within seconds. It connects
// lazily and never throws. Thread-safe.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <string>

#include "common/rpc/peer_limits.h"
#include "common/tls/tls_files.h"

namespace muster {

struct ChannelOptions {
  std::string address;  // host:port
  int max_receive_bytes = kMaxMessageBytes;
  // A server that has been silent for so long is pinged, and the connection is given up, with
  // UNAVAILABLE for its calls, when it does not answer in time.
  absl::Duration ping_interval = kPingInterval;
  absl::Duration ping_timeout = kPingTimeout;
  // Not empty: the connection is encrypted, and given up unless the server shows a certificate that
  // `ca` signed for the host in `address`. Requires CheckTlsFiles.
  TlsFiles tls = {};
};

// Each channel has a connection of its own, even to the same address: a flood on one never delays
// the other. Proxies from the environment are ignored: a controller on loopback must not be looked
// for behind one.
std::shared_ptr<grpc::Channel> MakeChannel(const ChannelOptions& options);

// Lets channels made by MakeChannel with this interval ping as often as they do; without it gRPC's
// server closes them ("too many pings").
void AllowClientPings(grpc::ServerBuilder& builder, absl::Duration ping_interval = kPingInterval);

}  // namespace muster
