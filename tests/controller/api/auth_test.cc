#include "tests/controller/api/api_fixture.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;

using AuthTest = ApiFixture;

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
