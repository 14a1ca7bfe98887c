// No request handler is left out of the fuzzing.
#include <gmock/gmock.h>

#include "muster/v1/job_service.pb.h"
#include "tests/fuzz/controller_world.h"

namespace muster::testing {
namespace {

TEST(FuzzMethods, EveryRpcOfJobServiceIsCalled) {
  const auto* service = v1::SubmitRequest::descriptor()->file()->FindServiceByName("JobService");
  std::vector<std::string> declared;
  for (int i = 0; i < service->method_count(); ++i) declared.push_back(service->method(i)->name());
  EXPECT_THAT(ControllerWorld::Methods(), ::testing::UnorderedElementsAreArray(declared))
      << "add the rpc to AllMethods in tests/fuzz/controller_world.cc";
}

}  // namespace
}  // namespace muster::testing
