#include "controller/rpc/health_service.h"

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <string>

namespace muster::controller {
namespace {

// HealthCheckResponse of health.proto with its one field, status: SERVING or NOT_SERVING.
grpc::ByteBuffer Response(bool serving) {
  const grpc::Slice bytes(std::string("\x08") + (serving ? "\x01" : "\x02"));
  return grpc::ByteBuffer(&bytes, 1);
}

class Answer final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Answer(bool serving) : response_(Response(serving)) {
    StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
  }
  explicit Answer(const std::string& method) {
    Finish(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, method + ": there is no such method"));
  }
  void OnDone() override { delete this; }

 private:
  const grpc::ByteBuffer response_;
};

}  // namespace

grpc::ServerGenericBidiReactor* HealthService::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  return context->method() == kCheckPath ? new Answer(serving_) : new Answer(context->method());
}

}  // namespace muster::controller
