#include "cli/session/stub_call.h"

#include "absl/strings/match.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_map.h"
#include "common/rpc/token.h"

namespace muster::cli {

StubCall::StubCall(const Endpoint& endpoint, absl::Duration timeout, InterruptGuard* guard)
    : channel_(MakeChannel({.address = endpoint.address, .tls = {.ca = endpoint.ca_file}})),
      guard_(guard) {
  AddToken(context_, endpoint.token);
  context_.set_deadline(absl::ToChronoTime(WallNow() + timeout));
  if (guard_ != nullptr) guard_->Set([this] { context_.TryCancel(); });
}

StubCall::~StubCall() {
  if (guard_ != nullptr) guard_->Clear();
}

CallEnd StubCall::End(const grpc::Status& status) const {
  // A call that found no connection has no peer but the name that was looked for.
  const std::string peer = context_.peer();
  const bool reached = absl::StartsWith(peer, "ipv4:") || absl::StartsWith(peer, "ipv6:");
  return {FromGrpc(status), reached ? SteadyNow() - began_ : absl::ZeroDuration()};
}

}  // namespace muster::cli
