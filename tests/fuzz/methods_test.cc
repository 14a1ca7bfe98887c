// No rpc and no kind of message is left out of the fuzzing: seeded inputs reach them all.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/rng.h"
#include "muster/v1/worker_service.pb.h"
#include "tests/fuzz/access_world.h"
#include "tests/fuzz/agent_world.h"
#include "tests/fuzz/controller_world.h"
#include "tests/fuzz/enroll_world.h"
#include "tests/fuzz/uploads_world.h"
#include "tests/support/declared_services.h"

namespace muster::testing {
namespace {

using Names = std::set<std::string>;

constexpr uint64_t kMostSeeds = 100;

std::string BytesOf(uint64_t seed) {
  std::string bytes(2048, '\0');
  uint64_t state = DeriveSeed(seed, 7);
  for (char& c : bytes) c = static_cast<char>(state = SplitMix64(state));
  return bytes;
}

// Plays one world after the other until `done` says so, or the seeds are used up.
template <typename World, typename Done>
void Play(const Done& done) {
  SetLogLevel(LogLevel::kError);
  for (uint64_t seed = 0; seed < kMostSeeds; ++seed) {
    const std::string bytes = BytesOf(seed);
    FuzzInput input(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    World world;
    while (!input.empty()) world.Step(input);
    world.Finish();
    if (done(world)) return;
  }
}

// Every rpc of every service in proto/muster/v1, as "JobService.Submit".
Names DeclaredRpcs() {
  Names rpcs;
  for (const auto* service : DeclaredServices()) {
    for (int m = 0; m < service->method_count(); ++m) {
      rpcs.insert(absl::StrCat(service->name(), ".", service->method(m)->name()));
    }
  }
  return rpcs;
}

std::set<int> KindsOf(const google::protobuf::Descriptor* message) {
  std::set<int> kinds;
  const auto* body = message->FindOneofByName("body");
  for (int i = 0; i < body->field_count(); ++i) kinds.insert(body->field(i)->number());
  return kinds;
}

TEST(FuzzMethods, EveryRpcOfEveryServiceIsCalled) {
  const Names declared = DeclaredRpcs();
  EXPECT_GT(declared.size(), 20u);
  Names called;
  Play<ControllerWorld>([&](const ControllerWorld& world) {
    called.insert(world.called().begin(), world.called().end());
    return false;
  });
  Names access;
  Play<AccessWorld>([&](const AccessWorld& world) {
    for (const std::string& name : world.called()) access.insert("AccessService." + name);
    return access.size() == 11;
  });
  called.insert(access.begin(), access.end());
  Names enrollment;
  Play<EnrollWorld>([&](const EnrollWorld& world) {
    enrollment.insert(world.called().begin(), world.called().end());
    return enrollment.size() == 8;
  });
  called.insert(enrollment.begin(), enrollment.end());
  Play<UploadsWorld>([&](const UploadsWorld& world) {
    for (const std::string& name : world.called()) called.insert("UploadService." + name);
    return world.called().size() == 3;
  });
  EXPECT_EQ(called, declared) << "add the rpc to a world of tests/fuzz";
}

TEST(FuzzMethods, EveryKindOfWordOfAnAgentIsSaid) {
  const std::set<int> kinds = KindsOf(v1::WorkerMessage::descriptor());
  std::set<int> said;
  Play<ControllerWorld>([&](const ControllerWorld& world) {
    said.insert(world.said().begin(), world.said().end());
    said.erase(v1::WorkerMessage::BODY_NOT_SET);
    return said == kinds;
  });
  EXPECT_EQ(said, kinds) << "add the kind to tests/fuzz/controller_world.cc";
}

TEST(FuzzMethods, EveryKindOfWordOfAControllerIsHeard) {
  const std::set<int> kinds = KindsOf(v1::ControllerMessage::descriptor());
  std::set<int> heard;
  Play<AgentWorld>([&](const AgentWorld& world) {
    heard.insert(world.heard().begin(), world.heard().end());
    heard.erase(v1::ControllerMessage::BODY_NOT_SET);
    return heard == kinds;
  });
  EXPECT_EQ(heard, kinds) << "add the kind to tests/fuzz/agent_world.cc";
}

}  // namespace
}  // namespace muster::testing
