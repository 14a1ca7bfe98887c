#include "worker/link/launch.h"

#include "nlohmann/json.hpp"
#include "tests/support/status_matchers.h"

namespace muster::worker {
namespace {

using ::muster::testing::StatusIs;
using ::testing::HasSubstr;

Launch Example() {
  Launch launch;
  launch.job_id = 42;
  launch.job_name = "digits";
  launch.attempt = 2;
  launch.generation = 1;
  launch.term = 7;
  launch.rank = 1;
  launch.world_size = 2;
  launch.local_rank = 0;
  launch.local_world_size = 1;
  launch.advertise_address = "127.0.0.1";
  launch.gpu = -1;
  launch.checkpoint_root = "/c/42";
  launch.work_dir = "/w/ranks/job-42.a2.g1.r1";
  launch.allow_plugins = true;
  launch.resume = {{"/c/42/step-10.a1.g1", 10, "ab", true},
                   {"/c/41/step-5.a1.g1", 5, "cd", false, 41, "before"}};
  launch.spec_json = R"({"name":"digits","train":{"epochs":3.5}})";
  return launch;
}

TEST(Launch, SurvivesARoundTrip) {
  const Launch launch = Example();
  ASSERT_OK_AND_ASSIGN(const Launch read, DecodeLaunch(EncodeLaunch(launch)));
  EXPECT_EQ(read.job_id, 42u);
  EXPECT_EQ(read.job_name, "digits");
  EXPECT_EQ(read.attempt, 2u);
  EXPECT_EQ(read.generation, 1u);
  EXPECT_EQ(read.term, 7u);
  EXPECT_EQ(read.rank, 1u);
  EXPECT_EQ(read.world_size, 2u);
  EXPECT_EQ(read.local_rank, 0u);
  EXPECT_EQ(read.local_world_size, 1u);
  EXPECT_EQ(read.advertise_address, "127.0.0.1");
  EXPECT_EQ(read.gpu, -1);
  EXPECT_EQ(read.checkpoint_root, "/c/42");
  EXPECT_EQ(read.work_dir, "/w/ranks/job-42.a2.g1.r1");
  EXPECT_TRUE(read.allow_plugins);
  EXPECT_EQ(read.spec_json, launch.spec_json);
  ASSERT_EQ(read.resume.size(), 2u);
  EXPECT_EQ(read.resume[0].path, "/c/42/step-10.a1.g1");
  EXPECT_EQ(read.resume[0].step, 10);
  EXPECT_EQ(read.resume[0].manifest_sha256, "ab");
  EXPECT_TRUE(read.resume[0].best);
  EXPECT_EQ(read.resume[0].job_id, 0u) << "the job's own";
  EXPECT_FALSE(read.resume[1].best);
  EXPECT_EQ(read.resume[1].job_id, 41u);
  EXPECT_EQ(read.resume[1].job_name, "before");
}

TEST(Launch, TheSpecStandsAsAnObjectInTheFile) {
  const auto object = nlohmann::json::parse(EncodeLaunch(Example()));
  EXPECT_TRUE(object["spec"].is_object());
  EXPECT_EQ(object["spec"]["train"]["epochs"], 3.5);
}

TEST(Launch, EachMissingOrMistypedKeyIsNamed) {
  const auto good = nlohmann::json::parse(EncodeLaunch(Example()));
  for (const auto& [key, value] : good.items()) {
    const bool optional =
        key == "resume" || key == "allow_plugins" || key == "root" || key == "root_identity";
    if (!optional) {
      nlohmann::json missing = good;
      missing.erase(key);
      EXPECT_THAT(DecodeLaunch(missing.dump()),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(key)));
    }
    nlohmann::json mistyped = good;
    mistyped[key] = value.is_boolean() ? nlohmann::json("no") : nlohmann::json(true);
    EXPECT_THAT(DecodeLaunch(mistyped.dump()),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(key)));
  }
}

TEST(Launch, ARankOutsideTheWorldIsRefused) {
  Launch launch = Example();
  launch.rank = 2;
  EXPECT_THAT(DecodeLaunch(EncodeLaunch(launch)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'rank'")));
}

TEST(Launch, ASpecThatIsNoObjectIsRefused) {
  Launch launch = Example();
  launch.spec_json = "7";
  EXPECT_THAT(DecodeLaunch(EncodeLaunch(launch)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'spec'")));
}

TEST(Launch, BrokenResumeItemsAreRefused) {
  auto object = nlohmann::json::parse(EncodeLaunch(Example()));
  object["resume"] = {1};
  EXPECT_THAT(DecodeLaunch(object.dump()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("resume")));
  object["resume"] = {{{"path", 1}}};
  EXPECT_THAT(DecodeLaunch(object.dump()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("path")));
  EXPECT_THAT(DecodeLaunch("nonsense"), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace muster::worker
