#include "tests/integration/run_record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include "absl/strings/str_cat.h"

namespace muster::testing {
namespace {

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

bool IsUsable(const Json& checkpoint) {
  const std::string state = Text(checkpoint, "state");
  return state == "COMMITTED" || state == "VERIFIED";
}

// Deterministic: the same run gives the same number, whatever the machine was doing meanwhile.
bool IsDeterministic(const std::string& name) {
  static const std::set<std::string> kNames = {"loss",
                                               "lr",
                                               "grad_norm",
                                               "train_accuracy",
                                               "validation_accuracy",
                                               "validation_loss",
                                               "test_loss",
                                               "test_accuracy",
                                               "epoch"};
  return kNames.count(name) > 0;
}

}  // namespace

std::vector<Json> AttemptsInOrder(const Json& show) {
  std::vector<Json> attempts;
  for (const Json& attempt : Member(show, "attempts")) attempts.push_back(attempt);
  std::sort(attempts.begin(), attempts.end(),
            [](const Json& a, const Json& b) { return Number(a, "number") < Number(b, "number"); });
  return attempts;
}

RunRecord ReadRun(Cluster& cluster, uint64_t job) {
  RunRecord run;
  std::string folder;
  const Json show = cluster.Show(job);
  for (const Json& checkpoint : Member(show, "checkpoints")) {
    const int64_t step = static_cast<int64_t>(Number(checkpoint, "step"));
    if (!IsUsable(checkpoint) || step < run.final_step) continue;
    run.final_step = step;
    folder = Text(checkpoint, "path");
  }
  EXPECT_EQ(run.final_step, Number(Member(show, "summary"), "total_steps")) << show.dump(1);
  run.model = ReadAll(folder + "/model.safetensors");
  run.optimizer = ReadAll(folder + "/optimizer.safetensors");

  const Json answer = cluster.CliJson({"metrics", absl::StrCat(job)});
  const Json& points = answer.is_array() ? answer : Member(answer, "points");
  for (const Json& point : points) {
    const auto key =
        std::make_pair(Text(point, "name"), static_cast<int64_t>(Number(point, "step")));
    EXPECT_TRUE(run.metrics.emplace(key, Number(point, "value")).second)
        << "doubled: " << key.first << " at step " << key.second;
  }
  EXPECT_FALSE(run.metrics.empty());
  return run;
}

void ExpectSameRun(const RunRecord& run, const RunRecord& reference) {
  EXPECT_EQ(run.final_step, reference.final_step);
  EXPECT_FALSE(run.model.empty());
  EXPECT_TRUE(run.model == reference.model) << "the final weights differ";
  EXPECT_FALSE(run.optimizer.empty());
  EXPECT_TRUE(run.optimizer == reference.optimizer) << "the final optimizer states differ";
  for (const auto& [key, value] : reference.metrics) {
    const auto found = run.metrics.find(key);
    if (found == run.metrics.end()) {
      ADD_FAILURE() << "lost: " << key.first << " at step " << key.second;
    } else if (IsDeterministic(key.first)) {
      EXPECT_EQ(found->second, value) << key.first << " at step " << key.second;
    }
  }
  for (const auto& [key, value] : run.metrics) {
    EXPECT_TRUE(reference.metrics.count(key) > 0)
        << "never reported by the undisturbed run: " << key.first << " at step " << key.second;
  }
}

void ExpectResumedFromNewestCheckpoint(const Json& show) {
  const std::vector<Json> attempts = AttemptsInOrder(show);
  for (size_t i = 1; i < attempts.size(); ++i) {
    double newest = 0;
    for (const Json& checkpoint : Member(show, "checkpoints")) {
      // One that was begun and never committed has no manifest.
      const bool committed = IsUsable(checkpoint) || (Text(checkpoint, "state") == "DELETED" &&
                                                      !Text(checkpoint, "manifest_sha256").empty());
      if (Number(checkpoint, "attempt") <= Number(attempts[i - 1], "number") && committed) {
        newest = std::max(newest, Number(checkpoint, "step"));
      }
    }
    EXPECT_EQ(Number(attempts[i], "first_step"), newest) << show.dump(1);
  }
}

}  // namespace muster::testing
