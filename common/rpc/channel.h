// How every client of ours (CLI, agent) connects, and what a server must grant so that these
// clients may stay connected.
//
// A channel pings an idle connection, so that a peer that vanished without a word is noticed within
// half a minute, and reconnects quickly, since controllers come back within seconds. It connects
// lazily and never throws. Thread-safe.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <string>

namespace muster {

struct ChannelOptions {
  std::string address;               // host:port
  int max_receive_bytes = 16 << 20;  // a larger message fails its call with RESOURCE_EXHAUSTED
};

// Each channel has a connection of its own, even to the same address: a flood on one never delays
// the other. Proxies from the environment are ignored: a controller on loopback must not be looked
// for behind one.
std::shared_ptr<grpc::Channel> MakeChannel(const ChannelOptions& options);

// Lets channels made by MakeChannel ping as often as they do; without it gRPC's server closes them
// ("too many pings").
void AllowClientPings(grpc::ServerBuilder& builder);

}  // namespace muster
