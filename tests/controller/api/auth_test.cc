#include <grpcpp/generic/generic_stub.h>

#include "tests/controller/api/api_fixture.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;

class AuthTest : public ApiFixture {
 protected:
  // Calls any method, whatever its kind, with one empty message.
  absl::Status CallAny(const std::string& method, const std::string& token) {
    grpc::GenericStub stub(channel_);
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    if (!token.empty()) AddToken(context, token);
    auto call = stub.PrepareCall(&context, method, &queue);
    const grpc::Slice nothing("");
    const grpc::ByteBuffer empty(&nothing, 1);
    grpc::Status status;
    void* tag = nullptr;
    bool ok = false;
    call->StartCall(&tag);
    queue.Next(&tag, &ok);
    call->WriteLast(empty, grpc::WriteOptions(), &tag);
    queue.Next(&tag, &ok);
    call->Finish(&status, &tag);
    queue.Next(&tag, &ok);
    return FromGrpc(status);
  }
};

TEST_F(AuthTest, EveryMethodOfBothServicesNeedsTheToken) {
  int methods = 0;
  for (const google::protobuf::FileDescriptor* file :
       {v1::SubmitRequest::descriptor()->file(), v1::Hello::descriptor()->file()}) {
    const google::protobuf::ServiceDescriptor* service = file->service(0);
    for (int i = 0; i < service->method_count(); ++i) {
      const std::string path = "/" + service->full_name() + "/" + service->method(i)->name();
      EXPECT_THAT(CallAny(path, ""), StatusIs(absl::StatusCode::kUnauthenticated)) << path;
      EXPECT_THAT(CallAny(path, "secret-of-this-tesT"),
                  StatusIs(absl::StatusCode::kUnauthenticated))
          << path;
      EXPECT_THAT(CallAny(path, "secret-of-this-tes"), StatusIs(absl::StatusCode::kUnauthenticated))
          << path;
      ++methods;
    }
  }
  EXPECT_GE(methods, 13);
  EXPECT_TRUE(engine_.events().empty());
}

}  // namespace
}  // namespace muster::controller
