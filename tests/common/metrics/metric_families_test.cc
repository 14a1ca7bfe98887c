#include "common/metrics/metric_families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <cmath>
#include <thread>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class MetricFamiliesTest : public ::testing::Test {
 protected:
  std::string Text() { return prometheus::TextSerializer().Serialize(families_.Collect()); }

  MetricFamilies families_{metric::kWorkerDroppedTotal};
};

TEST_F(MetricFamiliesTest, RendersTypeHelpAndLabels) {
  families_.Set(metric::kRankLoss, {"42", "0"}, 0.25);
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("# HELP muster_rank_loss Training loss"));
  EXPECT_THAT(text, HasSubstr("# TYPE muster_rank_loss gauge\n"));
  EXPECT_THAT(text, HasSubstr("muster_rank_loss{job_id=\"42\",rank=\"0\"} 0.25\n"));
}

TEST_F(MetricFamiliesTest, CountersAddUpAndGaugesAlsoFall) {
  families_.Add(metric::kWorkerHeartbeatsTotal);
  families_.Add(metric::kWorkerHeartbeatsTotal, 2);
  families_.Set(metric::kRankLogBytesTotal, {"1", "0"}, 100);
  families_.Set(metric::kRankLogBytesTotal, {"1", "0"}, 107);
  families_.Add(metric::kWorkerConnected, 1);
  families_.Add(metric::kWorkerConnected, -1);
  EXPECT_THAT(Text(), HasSubstr("# TYPE muster_worker_heartbeats_total counter\n"));
  EXPECT_THAT(Text(), HasSubstr("muster_worker_heartbeats_total 3\n"));
  EXPECT_THAT(Text(), HasSubstr("muster_rank_log_bytes_total{job_id=\"1\",rank=\"0\"} 107\n"));
  EXPECT_THAT(Text(), HasSubstr("muster_worker_connected 0\n"));
}

TEST_F(MetricFamiliesTest, WholeNumbersKeepAllTheirDigits) {
  for (const int64_t number : {(int64_t{1} << 24) + 1, (int64_t{1} << 53) - 1}) {
    families_.Set(metric::kWorkerHeartbeatsTotal, static_cast<double>(number));
    EXPECT_THAT(Text(), HasSubstr(absl::StrCat("muster_worker_heartbeats_total ", number, "\n")));
  }
}

TEST_F(MetricFamiliesTest, SeriesOfOneRankGoAwayTogetherAndOthersStay) {
  for (const char* rank : {"0", "1"}) {
    families_.Set(metric::kRankLoss, {"1", rank}, 1);
    families_.Set(metric::kRankStepPartSeconds, {"1", rank, "data"}, 1);
    families_.Add(metric::kRankLogBytesTotal, {"1", rank});
  }
  families_.Set(metric::kRankLoss, {"12", "0"}, 1);
  families_.RemoveMatching({{"job_id", "1"}, {"rank", "0"}});
  const std::string text = Text();
  EXPECT_THAT(text, Not(HasSubstr("job_id=\"1\",rank=\"0\"")));
  EXPECT_THAT(text, Not(HasSubstr("job_id=\"1\",part=\"data\",rank=\"0\"")));
  EXPECT_THAT(text, HasSubstr("muster_rank_loss{job_id=\"1\",rank=\"1\"}"));
  EXPECT_THAT(text, HasSubstr("{job_id=\"1\",part=\"data\",rank=\"1\"}"));
  EXPECT_THAT(text, HasSubstr("muster_rank_log_bytes_total{job_id=\"1\",rank=\"1\"}"));
  EXPECT_THAT(text, HasSubstr("muster_rank_loss{job_id=\"12\",rank=\"0\"}"));
  families_.RemoveMatching({{"job_id", "1"}});
  EXPECT_THAT(Text(), Not(HasSubstr("muster_rank_step_part_seconds")))
      << "a metric without series is left out";
}

TEST_F(MetricFamiliesTest, OneSeriesGoesAloneAndMayComeBack) {
  families_.Remove(metric::kRankLoss, {"1", "0"});
  for (const char* rank : {"0", "1"}) families_.Set(metric::kRankLoss, {"1", rank}, 1);
  families_.Set(metric::kRankStep, {"1", "0"}, 7);
  families_.Add(metric::kRankLogBytesTotal, {"1", "0"});
  families_.Remove(metric::kRankLoss, {"1", "0"});
  families_.Remove(metric::kRankLoss, {"2", "0"});
  families_.Remove(metric::kRankLogBytesTotal, {"1", "0"});
  EXPECT_THAT(Text(), Not(HasSubstr("muster_rank_loss{job_id=\"1\",rank=\"0\"}")));
  EXPECT_THAT(Text(), HasSubstr("muster_rank_loss{job_id=\"1\",rank=\"1\"} 1\n"));
  EXPECT_THAT(Text(), HasSubstr("muster_rank_step{job_id=\"1\",rank=\"0\"} 7\n"));
  EXPECT_THAT(Text(), Not(HasSubstr("muster_rank_log_bytes_total")));
  families_.Set(metric::kRankLoss, {"1", "0"}, 2);
  EXPECT_THAT(Text(), HasSubstr("muster_rank_loss{job_id=\"1\",rank=\"0\"} 2\n"));
}

TEST_F(MetricFamiliesTest, LabelSetsAreBoundedAndTheRefusedAreCounted) {
  const size_t most = MetricFamilies::kMaxSeriesPerMetric;
  const auto set = [&](size_t job) {
    families_.Set(metric::kRankLoss, {absl::StrCat(job), "0"}, static_cast<double>(job));
  };
  for (size_t job = 0; job < most + 2; ++job) set(job);
  families_.Set(metric::kRankLoss, {"1", "0"}, 7);
  EXPECT_THAT(Text(), HasSubstr("muster_rank_loss{job_id=\"1\",rank=\"0\"} 7\n"));
  EXPECT_THAT(Text(), Not(HasSubstr(absl::StrCat("{job_id=\"", most, "\""))));
  EXPECT_THAT(Text(), HasSubstr("muster_worker_dropped_series_total 2\n"));
  families_.RemoveMatching({{"job_id", "1"}});
  set(most);
  EXPECT_THAT(Text(), HasSubstr(absl::StrCat("{job_id=\"", most, "\""))) << "what goes makes room";
}

TEST_F(MetricFamiliesTest, LabelValuesFromOutsideAreCutAndCleanedAndEscaped) {
  families_.Set(metric::kWorkerSlots, {std::string(1000, 'x')}, 1);
  families_.Set(metric::kWorkerSlots, {"a\xff\nb"}, 1);
  families_.Set(metric::kWorkerSlots, {"a\\\"b"}, 1);
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("\"" + std::string(128, 'x') + "\""));
  EXPECT_THAT(text, HasSubstr("\"a??b\""));
  EXPECT_THAT(text, HasSubstr("\"a\\\\\\\"b\""));
}

TEST_F(MetricFamiliesTest, NotANumberIsRenderedAsPrometheusReadsIt) {
  families_.Set(metric::kRankLoss, {"1", "0"}, std::nan(""));
  families_.Set(metric::kRankLoss, {"2", "0"}, INFINITY);
  EXPECT_THAT(Text(), HasSubstr("{job_id=\"1\",rank=\"0\"} Nan\n"));
  EXPECT_THAT(Text(), HasSubstr("{job_id=\"2\",rank=\"0\"} +Inf\n"));
}

TEST_F(MetricFamiliesTest, ThreadsMayUpdateRemoveAndRenderAtOnce) {
  std::thread writer([&] {
    for (int i = 0; i < 500; ++i) families_.Add(metric::kRankLogBytesTotal, {"1", "0"});
  });
  std::thread remover([&] {
    for (int i = 0; i < 500; ++i) families_.RemoveMatching({{"job_id", "2"}});
  });
  for (int i = 0; i < 50; ++i) {
    families_.Set(metric::kRankLoss, {"2", Text().substr(0, 3)}, 1);
  }
  writer.join();
  remover.join();
  EXPECT_THAT(Text(), HasSubstr("muster_rank_log_bytes_total{job_id=\"1\",rank=\"0\"} 500\n"));
}

TEST(MetricFamiliesDeathTest, WrongLabelsAreOurBug) {
  MetricFamilies families(metric::kWorkerDroppedTotal);
  EXPECT_DEATH(families.Set(metric::kRankLoss, {"1"}, 1), "muster_rank_loss");
  EXPECT_DEATH(families.Set(metric::kRankLoss, {"1", "2", "3"}, 1), "muster_rank_loss");
}

}  // namespace
}  // namespace muster
