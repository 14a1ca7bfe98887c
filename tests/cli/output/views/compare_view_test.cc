#include "cli/output/views/compare_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ComparedJob MakeCompared(uint64_t id, const std::string& name, double lr) {
  ComparedJob job;
  job.summary.set_id(id);
  job.summary.set_name(name);
  job.summary.set_state(v1::SUCCEEDED);
  job.summary.set_ranks(2);
  job.spec = {{"name", name},
              {"train", {{"batch_size", 64}, {"optimizer", {{"lr", lr}}}, {"layers", {8, 8}}}}};
  for (const double loss : {2.0, 1.0, lr}) job.metrics["loss"].Add(loss);
  job.ledger.mutable_held()->set_seconds(7200);
  job.ledger.mutable_productive()->set_seconds(6480);
  job.ledger.mutable_load()->set_seconds(720);
  return job;
}

TEST(CompareView, DifferencesAreNamedByTheirPath) {
  ComparedJob first = MakeCompared(1, "a", 0.5);
  ComparedJob second = MakeCompared(2, "a", 0.25);
  second.spec["train"]["layers"] = {8, 16};
  second.spec["placement"]["pool"] = "spot";
  const std::vector<SpecDifference> differences = SpecDifferences(first.spec, second.spec);
  ASSERT_EQ(differences.size(), 3u);
  EXPECT_EQ(differences[0].path, "placement.pool");
  EXPECT_TRUE(differences[0].first.is_null());
  EXPECT_EQ(differences[0].second, "spot");
  EXPECT_EQ(differences[1].path, "train.layers");
  EXPECT_EQ(differences[1].second.dump(), "[8,16]");
  EXPECT_EQ(differences[2].path, "train.optimizer.lr");
  EXPECT_EQ(differences[2].first, 0.5);
  EXPECT_TRUE(SpecDifferences(first.spec, first.spec).empty());
}

TEST(CompareView, ThePageHasBothJobsBesideEachOther) {
  const ComparedJob first = MakeCompared(1, "digits", 0.5);
  ComparedJob second = MakeCompared(2, "digits", 0.25);
  second.metrics["reward"].Add(7);
  second.ledger.mutable_recompute()->set_seconds(72);
  EXPECT_EQ(ComparePage(first, second, /*unicode=*/false),
            "JOB       1 digits   2 digits\n"
            "state     SUCCEEDED  SUCCEEDED\n"
            "ranks     2          2\n"
            "restarts  0          0\n"
            "\n"
            "SPEC                1 digits  2 digits\n"
            "train.optimizer.lr  0.5       0.25\n"
            "\n"
            "METRIC  LAST 1  LAST 2  CURVE 1  CURVE 2\n"
            "loss    0.5000  0.2500  #-_      #~_\n"
            "reward       -   7.000  -        =\n"
            "\n"
            "SLOTS       1 digits          2 digits\n"
            "held        2.000 slot-hours  2.000 slot-hours\n"
            "load        10.0%             10.0%\n"
            "productive  90.0%             90.0%\n"
            "recompute   0.0%              1.0%\n");
}

TEST(CompareView, SpecsThatAreTheSameAreSaidToBe) {
  const ComparedJob job = MakeCompared(1, "digits", 0.5);
  EXPECT_THAT(ComparePage(job, job, false), HasSubstr("\nspec: the same\n"));
  EXPECT_THAT(ComparePage(job, job, false), Not(HasSubstr("SPEC ")));
}

TEST(CompareView, TheJsonHasTheSame) {
  const ComparedJob first = MakeCompared(1, "digits", 0.5);
  ComparedJob second = MakeCompared(2, "digits", 0.25);
  second.metrics["reward"].Add(7);
  const Json json = CompareJson(first, second);
  EXPECT_EQ(json["jobs"][1]["id"], 2);
  EXPECT_EQ(json["spec"][0].dump(), R"({"path":"train.optimizer.lr","first":0.5,"second":0.25})");
  EXPECT_EQ(json["metrics"][0]["second"]["last"], 0.25);
  EXPECT_TRUE(json["metrics"][1]["first"].is_null());
  EXPECT_EQ(json["goodput"][0]["held"]["seconds"], 7200);
}

}  // namespace
}  // namespace muster::cli
