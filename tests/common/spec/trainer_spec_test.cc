// The generated structs of the trainer against the messages that they are generated from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/spec/spec_writer.h"
#include "muster/v1/job_spec.pb.h"
#include "tests/common/spec/fill_spec.h"
#include "tests/support/status_matchers.h"
#include "trainer_spec/job_spec.h"

namespace muster {
namespace {

using ::muster::testing::StatusIs;
using ::testing::HasSubstr;

// A multiple of the members of each oneof and the values of each enum, as long as none has more
// than ten.
constexpr int kVariants = 2520;

TEST(TrainerSpecTest, EveryFieldOfTheMessageArrivesInTheStructAndComesBack) {
  for (int variant = 0; variant < kVariants; ++variant) {
    v1::JobSpec spec;
    int counter = 0;
    testing::FillEverything(spec, variant, counter);
    const std::string sent = SpecToJson(spec);
    ASSERT_OK_AND_ASSIGN(const trainer_spec::JobSpec decoded, trainer_spec::DecodeJobSpec(sent));
    const std::string returned = trainer_spec::EncodeJobSpec(decoded);
    EXPECT_EQ(nlohmann::json::parse(returned), nlohmann::json::parse(sent)) << returned;
    ASSERT_OK_AND_ASSIGN(const trainer_spec::JobSpec again, trainer_spec::DecodeJobSpec(returned));
    EXPECT_TRUE(again == decoded);
  }
}

TEST(TrainerSpecTest, FieldsHaveTheTypesAndValuesThatTheTrainerReads) {
  ASSERT_OK_AND_ASSIGN(const trainer_spec::JobSpec spec, trainer_spec::DecodeJobSpec(R"({
    "name": "digits", "tags": {"a": "b"}, "ranks": {"min": 2, "max": 4},
    "restart": {"backoff": "1m30s"},
    "train": {"model": {"mlp": {"hidden": [8, 9]}}, "data": {"digits": {"path": "/d"}},
              "epochs": 3, "precision": "bf16", "seed": 18446744073709551615,
              "parallel": {"transport": "shared_memory", "compression": "bf16", "sync_batch_norm": true},
              "optimizer": {"name": "sgd", "lr": 1, "nesterov": true}}})"));
  EXPECT_EQ(spec.name, "digits");
  EXPECT_EQ(spec.tags.at("a"), "b");
  EXPECT_EQ(spec.ranks.max, 4u);
  EXPECT_EQ(spec.restart.backoff, absl::Seconds(90));
  ASSERT_TRUE(spec.train.model.mlp.has_value());
  EXPECT_FALSE(spec.train.model.resnet18.has_value());
  EXPECT_THAT(spec.train.model.mlp->hidden, ::testing::ElementsAre(8u, 9u));
  EXPECT_EQ(spec.train.data.digits->path, "/d");
  EXPECT_EQ(spec.train.epochs, 3.0);
  EXPECT_EQ(spec.train.steps, 0u);
  EXPECT_EQ(spec.train.precision, trainer_spec::Precision::kBf16);
  EXPECT_EQ(spec.train.seed, ~0ull);
  EXPECT_EQ(spec.train.optimizer.name, trainer_spec::OptimizerName::kSgd);
  EXPECT_EQ(spec.train.optimizer.lr, 1.0);
  EXPECT_TRUE(spec.train.optimizer.nesterov);
  EXPECT_EQ(spec.train.parallel.transport, trainer_spec::Transport::kSharedMemory);
  EXPECT_EQ(spec.train.parallel.compression, trainer_spec::Compression::kBf16);
  EXPECT_TRUE(spec.train.parallel.sync_batch_norm);
  EXPECT_EQ(spec.train.schedule.name, trainer_spec::ScheduleName::kUnspecified);
}

TEST(TrainerSpecTest, FaultsNameTheirPath) {
  const struct {
    const char* json;
    const char* message;
  } kCases[] = {
      {"", "not valid JSON"},
      {"{", "not valid JSON"},
      {"[]", "(top): must be an object"},
      {R"({"nam": "x"})", "nam: unknown key"},
      {R"({"train": {"optimizer": {"lrr": 1}}})", "train.optimizer.lrr: unknown key"},
      {R"({"name": 1})", "name: must be a string"},
      {R"({"train": {"batch_size": "12"}})", "train.batch_size: must be a whole number from 0"},
      {R"({"train": {"batch_size": -1}})", "train.batch_size: must be a whole number"},
      {R"({"train": {"batch_size": 4294967296}})", "to 4294967295"},
      {R"({"train": {"batch_size": 1.5}})", "train.batch_size: must be a whole number"},
      {R"({"train": {"clip_norm": "1"}})", "train.clip_norm: must be a number"},
      {R"({"train": {"deterministic": 1}})", "train.deterministic: must be true or false"},
      {R"({"train": {"precision": "fp8"}})", "train.precision: must be one of fp32, bf16"},
      {R"({"train": {"precision": 1}})", "train.precision: must be one of"},
      {R"({"train": {"model": {"mlp": {"hidden": 3}}}})", "train.model.mlp.hidden: must be a list"},
      {R"({"train": {"model": {"mlp": {"hidden": [3, "4"]}}}})",
       "train.model.mlp.hidden[1]: must be"},
      {R"({"train": {"model": {"mlp": {}, "resnet18": {}}}})", "only one of mlp, resnet18"},
      {R"({"restart": {"backoff": 5}})", "restart.backoff: must be a duration"},
      {R"({"restart": {"backoff": "5 apples"}})", "restart.backoff: '5 apples' is no duration"},
      {R"({"tags": []})", "tags: must be an object"},
      {R"({"tags": {"a": 1}})", "tags.a: must be a string"},
      {R"({"ranks": 2})", "ranks: must be an object"},
  };
  for (const auto& c : kCases) {
    EXPECT_THAT(trainer_spec::DecodeJobSpec(c.json),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)))
        << c.json;
  }
}

}  // namespace
}  // namespace muster
