#include "common/metrics/metric_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "common/metrics/metric_families.h"
#include "tests/support/temp_dir.h"

namespace muster {
namespace {

std::vector<const MetricDef*> All() {
  std::vector<const MetricDef*> all = ControllerMetrics();
  all.insert(all.end(), WorkerMetrics().begin(), WorkerMetrics().end());
  return all;
}

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

bool StartsWith(const std::string& text, const std::string& start) {
  return text.rfind(start, 0) == 0;
}

// A page with one series of every metric, or two where there are labels.
std::string RenderEverything(const std::vector<const MetricDef*>& metrics,
                             const MetricDef& dropped) {
  MetricFamilies families(dropped);
  for (const MetricDef* metric : metrics) {
    std::vector<std::string> values;
    for (const char* label : metric->labels) {
      if (label != nullptr) values.push_back(std::string("some \"") + label + "\"\\\n");
    }
    families.Set(*metric, values, 1.5);
    if (values.empty()) continue;
    values[0] = "other";
    families.Set(*metric, values, 1e300);
  }
  return prometheus::TextSerializer().Serialize(families.Collect());
}

TEST(MetricNamesTest, NoNameStandsTwiceOrOnBothDaemons) {
  std::set<std::string> seen;
  for (const MetricDef* metric : All())
    EXPECT_TRUE(seen.insert(metric->name).second) << metric->name;
}

TEST(MetricNamesTest, RanksDevicesAndWorkersStandOnAgentsAndNothingElseDoes) {
  const auto agents = [](const std::string& name) {
    return StartsWith(name, "muster_rank_") || StartsWith(name, "muster_device_") ||
           StartsWith(name, "muster_worker_");
  };
  for (const MetricDef* metric : ControllerMetrics())
    EXPECT_FALSE(agents(metric->name)) << metric->name;
  for (const MetricDef* metric : WorkerMetrics()) EXPECT_TRUE(agents(metric->name)) << metric->name;
}

TEST(MetricNamesTest, NamesFollowTheConventions) {
  for (const MetricDef* metric : All()) {
    const std::string name = metric->name;
    EXPECT_TRUE(StartsWith(name, "muster_")) << name;
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), std::string::npos)
        << name;
    EXPECT_EQ(name.find("__"), std::string::npos) << name;
    EXPECT_NE(name.back(), '_') << name;
    EXPECT_EQ(EndsWith(name, "_total"), metric->type == MetricType::kCounter) << name;
    if (std::string(metric->unit) != "1") {
      const std::string end = std::string("_") + metric->unit;
      EXPECT_TRUE(EndsWith(name, end) || EndsWith(name, end + "_total")) << name;
    }
    EXPECT_TRUE(EndsWith(metric->help, ".")) << name;
    for (const char* label : metric->labels) {
      if (label == nullptr) continue;
      EXPECT_STRNE(label, "job") << name << ": Prometheus sets this label itself";
      EXPECT_STRNE(label, "instance") << name << ": Prometheus sets this label itself";
    }
  }
}

TEST(MetricNamesTest, ReportedValuesLeadToMetricsWithTheRightLabels) {
  for (const char* name : {"loss", "lr", "samples_per_second", "rank_samples_per_second",
                           "data_seconds", "validation_accuracy", "memory_peak_bytes", "epoch"}) {
    const ReportedValue* value = FindReportedValue(name);
    ASSERT_NE(value, nullptr) << name;
    const size_t last = value->last_label == nullptr ? 2 : 3;
    for (const MetricDef* metric : {value->of_job, value->of_rank}) {
      if (metric == nullptr) continue;
      EXPECT_STREQ(metric->labels[0], "job_id");
      EXPECT_NE(metric->labels[last - 1], nullptr) << metric->name;
      EXPECT_EQ(metric->labels[last], nullptr) << metric->name;
    }
  }
  EXPECT_STREQ(FindReportedValue("save_stall_seconds")->last_label, "save_stall");
  EXPECT_EQ(FindReportedValue("nobody_knows"), nullptr);
}

TEST(MetricNamesTest, PromtoolFindsNothingToSay) {
  ASSERT_EQ(std::system("command -v promtool > /dev/null"), 0)
      << "promtool is not installed (Debian: prometheus)";
  testing::TempDir dir;
  const struct {
    const char* name;
    std::string text;
  } daemons[] = {
      {"controller", RenderEverything(ControllerMetrics(), metric::kControllerDroppedTotal)},
      {"worker", RenderEverything(WorkerMetrics(), metric::kWorkerDroppedTotal)},
  };
  for (const auto& daemon : daemons) {
    const std::string text = dir / daemon.name;
    std::ofstream(text) << daemon.text;
    const std::string command = "promtool check metrics < " + text + " > " + text + ".out 2>&1";
    const int rc = std::system(command.c_str());
    std::stringstream said;
    said << std::ifstream(text + ".out").rdbuf();
    EXPECT_EQ(WEXITSTATUS(rc), 0) << said.str();
    EXPECT_EQ(said.str(), "");
  }
}

}  // namespace
}  // namespace muster
