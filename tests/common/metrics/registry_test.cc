#include "common/metrics/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Registry MakeRegistry() { return Registry(ControllerMetrics(), metric::kControllerDroppedTotal); }

TEST(RegistryTest, RendersTypeHelpAndLabels) {
  Registry registry = MakeRegistry();
  registry.Set(metric::kJobLoss, {"42", "digits"}, 0.25);
  const std::string text = registry.Render();
  EXPECT_THAT(text, HasSubstr("# HELP muster_job_loss Training loss"));
  EXPECT_THAT(text, HasSubstr("# TYPE muster_job_loss gauge\n"));
  EXPECT_THAT(text, HasSubstr("muster_job_loss{job_id=\"42\",job_name=\"digits\"} 0.25\n"));
}

TEST(RegistryTest, CountersAddUpAndUnlabelledOnesStartAtZero) {
  Registry registry = MakeRegistry();
  EXPECT_THAT(registry.Render(), HasSubstr("muster_state_commits_total 0\n"));
  registry.Add(metric::kCommitsTotal);
  registry.Add(metric::kCommitsTotal, 2);
  EXPECT_THAT(registry.Render(), HasSubstr("muster_state_commits_total 3\n"));
  EXPECT_THAT(registry.Render(), HasSubstr("# TYPE muster_state_commits_total counter\n"));
}

TEST(RegistryTest, MetricsWithoutSeriesAreLeftOut) {
  EXPECT_THAT(MakeRegistry().Render(), Not(HasSubstr("muster_job_loss")));
}

TEST(RegistryTest, SeriesOfAJobGoAwayTogetherAndOthersStay) {
  Registry registry = MakeRegistry();
  for (const char* id : {"1", "12"}) {
    registry.Set(metric::kJobLoss, {id, "a"}, 1);
    registry.Set(metric::kJobStepPartSeconds, {id, "a", "data"}, 1);
    registry.Add(metric::kJobRestartsTotal, {id, "a"});
  }
  registry.Set(metric::kWorkers, {"ready"}, 2);
  registry.RemoveMatching({{"job_id", "1"}});
  const std::string text = registry.Render();
  EXPECT_THAT(text, Not(HasSubstr("job_id=\"1\"")));
  EXPECT_THAT(text, HasSubstr("muster_job_loss{job_id=\"12\""));
  EXPECT_THAT(text, HasSubstr("muster_job_step_part_seconds{job_id=\"12\""));
  EXPECT_THAT(text, HasSubstr("muster_workers{state=\"ready\"} 2\n"));
}

TEST(RegistryTest, SeriesOfOneRankGoAwayAlone) {
  Registry registry(WorkerMetrics(), metric::kWorkerDroppedTotal);
  registry.Set(metric::kRankLoss, {"1", "0"}, 1);
  registry.Set(metric::kRankLoss, {"1", "1"}, 1);
  registry.RemoveMatching({{"job_id", "1"}, {"rank", "0"}});
  EXPECT_THAT(registry.Render(), Not(HasSubstr("rank=\"0\"")));
  EXPECT_THAT(registry.Render(), HasSubstr("rank=\"1\""));
}

TEST(RegistryTest, OneSeriesOrAllOfAMetricCanGo) {
  Registry registry = MakeRegistry();
  registry.Set(metric::kWorkers, {"ready"}, 1);
  registry.Set(metric::kWorkers, {"lost"}, 1);
  registry.Remove(metric::kWorkers, {"lost"});
  EXPECT_THAT(registry.Render(), HasSubstr("ready"));
  EXPECT_THAT(registry.Render(), Not(HasSubstr("lost\"")));
  registry.Clear(metric::kWorkers);
  EXPECT_THAT(registry.Render(), Not(HasSubstr("muster_workers")));
}

TEST(RegistryTest, LabelSetsAreBoundedAndTheRefusedAreCounted) {
  Registry registry(ControllerMetrics(), metric::kControllerDroppedTotal,
                    {.max_series_per_metric = 2});
  for (const char* id : {"1", "2", "3", "4"}) registry.Set(metric::kJobLoss, {id, "a"}, 1);
  registry.Set(metric::kJobLoss, {"1", "a"}, 7);
  const std::string text = registry.Render();
  EXPECT_THAT(text, HasSubstr("muster_job_loss{job_id=\"1\",job_name=\"a\"} 7\n"));
  EXPECT_THAT(text, Not(HasSubstr("job_id=\"3\"")));
  EXPECT_THAT(text, HasSubstr("muster_controller_dropped_series_total 2\n"));
}

TEST(RegistryTest, LabelValuesFromOutsideAreCutAndCleaned) {
  Registry registry = MakeRegistry();
  registry.Set(metric::kWorkers, {std::string(1000, 'x')}, 1);
  registry.Set(metric::kWorkers, {"a\xff\nb"}, 1);
  const std::string text = registry.Render();
  EXPECT_THAT(text, HasSubstr("\"" + std::string(128, 'x') + "\""));
  EXPECT_THAT(text, HasSubstr("\"a??b\""));
}

TEST(RegistryTest, NotANumberIsRenderedAsPrometheusReadsIt) {
  Registry registry = MakeRegistry();
  registry.Set(metric::kJobLoss, {"1", "a"}, std::nan(""));
  registry.Set(metric::kJobLoss, {"2", "a"}, INFINITY);
  EXPECT_THAT(registry.Render(), HasSubstr("job_name=\"a\"} NaN\n"));
  EXPECT_THAT(registry.Render(), HasSubstr("job_name=\"a\"} +Inf\n"));
}

TEST(RegistryTest, ThreadsMayUpdateRemoveAndRenderAtOnce) {
  Registry registry = MakeRegistry();
  std::thread writer([&] {
    for (int i = 0; i < 500; ++i) registry.Add(metric::kJobRestartsTotal, {"1", "a"});
  });
  std::thread remover([&] {
    for (int i = 0; i < 500; ++i) registry.RemoveMatching({{"job_id", "2"}});
  });
  for (int i = 0; i < 50; ++i)
    registry.Set(metric::kJobLoss, {"2", registry.Render().substr(0, 3)}, 1);
  writer.join();
  remover.join();
  EXPECT_THAT(registry.Render(),
              HasSubstr("muster_job_restarts_total{job_id=\"1\",job_name=\"a\"} 500\n"));
}

TEST(RegistryDeathTest, MetricsOfTheOtherDaemonAndWrongLabelsAreOurBug) {
  Registry registry = MakeRegistry();
  EXPECT_DEATH(registry.Set(metric::kRankLoss, {"1", "0"}, 1), "muster_rank_loss");
  EXPECT_DEATH(registry.Set(metric::kJobLoss, {"1"}, 1), "muster_job_loss");
  EXPECT_DEATH(registry.Add(metric::kCommitsTotal, -1), "never falls");
}

}  // namespace
}  // namespace muster
