// What the flags of `muster submit` say of the spec.
#include "cli/submission/submit_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/spec/load_spec.h"
#include "tests/support/status_matchers.h"

namespace muster::cli {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::StatusIs;
using ::testing::ElementsAre;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);  // 2023-11-14T22:13:20Z

constexpr char kJob[] =
    "name: good\n"
    "placement: {pool: default}\n"
    "checkpoint: {every_epochs: 3}\n"
    "train:\n"
    "  model: {mlp: {hidden: [8]}}\n"
    "  data: {synthetic: {samples: 64, shape: [4]}}\n"
    "  batch_size: 8\n"
    "  steps: 10\n";

absl::StatusOr<v1::JobSpec> SpecWith(const SubmitFlags& flags) {
  SpecSource source;
  const auto overrides = SpecOverrides(flags, kNow);
  if (!overrides.ok()) return overrides.status();
  source.overrides = *overrides;
  return LoadSpec(kJob, source);
}

TEST(SubmitFlagsTest, EachFlagIsAFieldOfTheSpec) {
  SubmitFlags flags;
  flags.sets = {"name=first"};
  flags.name = "second";
  flags.pool = "spot,ondemand after 10m";
  flags.ranks = "2:4";
  flags.priority = "high+5";
  flags.begin = "now+1h";
  flags.deadline = "2030-01-01T00:00:00Z";
  flags.max_run_time = "2h";
  flags.array = "1-20%4";
  flags.after = {"42", "43:fail"};
  flags.exclude = {"worker-1", "worker-2"};
  flags.tags = {"team=vision"};
  flags.gpus = "2";
  flags.gpu_type = "8100";
  flags.cpus = "6";
  flags.memory = "16GiB";
  flags.checkpoint_every = "500steps";
  flags.resume_from = "42_7";
  flags.hold = true;
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec spec, SpecWith(flags));
  EXPECT_EQ(spec.name(), "second") << "the named flag wins";
  EXPECT_EQ(spec.checkpoint().resume_from(), "42_7") << "no number, as YAML would read it";
  EXPECT_FALSE(spec.placement().has_pool()) << "several pools replace the file's one";
  EXPECT_THAT(spec.placement().pools(), ElementsAre("spot", "ondemand after 10m"));
  EXPECT_THAT(spec.placement().exclude(), ElementsAre("worker-1", "worker-2"));
  EXPECT_EQ(spec.ranks().min(), 2u);
  EXPECT_EQ(spec.ranks().max(), 4u);
  EXPECT_EQ(spec.scheduling().priority_class(), v1::PRIORITY_CLASS_HIGH);
  EXPECT_EQ(spec.scheduling().priority(), 5);
  EXPECT_EQ(spec.scheduling().begin(), "2023-11-14T23:13:20Z");
  EXPECT_EQ(spec.scheduling().deadline(), "2030-01-01T00:00:00Z");
  EXPECT_EQ(spec.scheduling().max_run_time().seconds(), 7200);
  EXPECT_EQ(spec.scheduling().array(), "1-20%4");
  EXPECT_THAT(spec.scheduling().after(), ElementsAre("42", "43:fail"));
  EXPECT_TRUE(spec.scheduling().hold());
  EXPECT_EQ(spec.tags().at("team"), "vision");
  EXPECT_EQ(spec.checkpoint().every_steps(), 500u);
  EXPECT_EQ(spec.checkpoint().every_epochs(), 0u);
  EXPECT_EQ(spec.checkpoint().every().seconds(), 0);
  EXPECT_EQ(spec.per_rank().gpus(), 2u);
  EXPECT_EQ(spec.per_rank().gpu_type(), "8100") << "a text, whatever it looks like";
  EXPECT_EQ(spec.per_rank().cpus(), 6u);
  EXPECT_EQ(spec.per_rank().memory(), "16GiB");
}

TEST(SubmitFlagsTest, SetTakesRanksAsTheFlagDoes) {
  SubmitFlags flags;
  flags.sets = {"ranks=1:3"};
  ASSERT_OK_AND_ASSIGN(v1::JobSpec spec, SpecWith(flags));
  EXPECT_EQ(spec.ranks().min(), 1u);
  EXPECT_EQ(spec.ranks().max(), 3u);
  flags.sets = {"ranks={min: 2, max: 5}"};
  ASSERT_OK_AND_ASSIGN(spec, SpecWith(flags));
  EXPECT_EQ(spec.ranks().max(), 5u) << "as YAML has it";
  flags.sets = {"ranks=4"};
  ASSERT_OK_AND_ASSIGN(spec, SpecWith(flags));
  EXPECT_EQ(spec.ranks().min(), 4u);
  flags.sets = {"ranks=3:x"};
  EXPECT_THAT(SpecWith(flags), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(SubmitFlagsTest, CheckpointsMayComeByTimeAlone) {
  SubmitFlags flags;
  flags.checkpoint_every.emplace("5m");
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec spec, SpecWith(flags));
  EXPECT_EQ(spec.checkpoint().every().seconds(), 300);
  EXPECT_EQ(spec.checkpoint().every_epochs(), 0u);
  EXPECT_EQ(spec.checkpoint().every_steps(), 0u);
}

TEST(SubmitFlagsTest, OnePoolReplacesThePoolOfTheFile) {
  SubmitFlags flags;
  flags.pool.emplace("spot");
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec spec, SpecWith(flags));
  EXPECT_EQ(spec.placement().pool(), "spot");
  EXPECT_EQ(spec.placement().pools_size(), 0);
}

TEST(SubmitFlagsTest, WhatIsNoValueIsSaid) {
  const auto refused = [](auto change) {
    SubmitFlags flags;
    change(flags);
    EXPECT_THAT(SpecWith(flags), StatusIs(absl::StatusCode::kInvalidArgument));
  };
  refused([](SubmitFlags& flags) { flags.priority = "highest"; });
  refused([](SubmitFlags& flags) { flags.begin = "tomorrow"; });
  refused([](SubmitFlags& flags) { flags.checkpoint_every = "5 apples"; });
  refused([](SubmitFlags& flags) { flags.checkpoint_every = "-5m"; });
  refused([](SubmitFlags& flags) { flags.memory = "much"; });
  refused([](SubmitFlags& flags) { flags.cpus = "-1"; });
  refused([](SubmitFlags& flags) { flags.after = {"forty-two"}; });
  refused([](SubmitFlags& flags) { flags.array = "20-1"; });
  refused([](SubmitFlags& flags) { flags.ranks = "2:x"; });
}

}  // namespace
}  // namespace muster::cli
