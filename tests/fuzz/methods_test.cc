// No request handler is left out of the fuzzing.
#include <gmock/gmock.h>

#include <set>

#include "common/base/rng.h"
#include "muster/v1/job_service.pb.h"
#include "muster/v1/worker_service.pb.h"
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

TEST(FuzzMethods, EveryKindOfWordOfAnAgentIsSaid) {
  std::set<int> kinds;
  const auto* body = v1::WorkerMessage::descriptor()->FindOneofByName("body");
  for (int i = 0; i < body->field_count(); ++i) kinds.insert(body->field(i)->number());
  std::set<int> said;
  for (uint64_t seed = 0; seed < 100 && said != kinds; ++seed) {
    std::string bytes(2048, '\0');
    uint64_t state = DeriveSeed(seed, 7);
    for (char& c : bytes) c = static_cast<char>(state = SplitMix64(state));
    FuzzInput input(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    ControllerWorld world;
    while (!input.empty()) world.Step(input);
    world.Finish();
    said.insert(world.said().begin(), world.said().end());
    said.erase(v1::WorkerMessage::BODY_NOT_SET);
  }
  EXPECT_EQ(said, kinds) << "add the kind to tests/fuzz/controller_world.cc";
}

}  // namespace
}  // namespace muster::testing
