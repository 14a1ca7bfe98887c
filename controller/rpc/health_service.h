// grpc.health.v1.Health for probes that have no token: answers Check for the whole server, whatever
// service it names, without reading what was sent; everything else is UNIMPLEMENTED. gRPC's own
// reads a message of any stranger, up to the bound of the port.
#pragma once

#include <grpcpp/generic/async_generic_service.h>

#include <atomic>

#include "absl/strings/string_view.h"

namespace muster::controller {

class HealthService final : public grpc::CallbackGenericService {
 public:
  void SetServing(bool serving) { serving_ = serving; }

  // The one call that needs no token.
  static constexpr absl::string_view kCheckPath = "/grpc.health.v1.Health/Check";

 private:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

  std::atomic<bool> serving_ = true;
};

}  // namespace muster::controller
