// A connection for who trusts nothing yet: encrypted, but to whoever answers.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

namespace muster {

// What is learned over it must be checked by other means, and nothing secret may be sent. Else as
// MakeChannel.
std::shared_ptr<grpc::Channel> MakeUnverifiedChannel(const std::string& address);

}  // namespace muster
