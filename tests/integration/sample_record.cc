#include "tests/integration/sample_record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "tests/integration/run_record.h"

namespace muster::testing {
namespace {

// The passes of each process, without those of the memory rehearsal.
std::map<int64_t, std::vector<RecordedStep>> ReadPasses(const std::string& path) {
  std::map<int64_t, std::vector<RecordedStep>> passes;
  std::ifstream in(path);
  EXPECT_TRUE(in.good()) << path;
  for (std::string text; std::getline(in, text);) {
    std::istringstream line(text);
    int64_t pid = 0;
    RecordedStep pass;
    line >> pid >> pass.weights;
    for (int64_t id = 0; line >> id;) pass.ids.push_back(id);
    std::vector<RecordedStep>& of_process = passes[pid];
    if (!of_process.empty() && of_process.back().weights == pass.weights) of_process.pop_back();
    of_process.push_back(std::move(pass));
  }
  return passes;
}

std::vector<Json> RanksInOrder(const Json& attempt) {
  std::vector<Json> ranks;
  for (const Json& rank : Member(attempt, "ranks")) ranks.push_back(rank);
  std::sort(ranks.begin(), ranks.end(),
            [](const Json& a, const Json& b) { return Number(a, "rank") < Number(b, "rank"); });
  return ranks;
}

}  // namespace

std::vector<RecordedStep> ReadSteps(const std::string& record_path, const Json& show) {
  const std::map<int64_t, std::vector<RecordedStep>> passes = ReadPasses(record_path);
  const std::vector<Json> attempts = AttemptsInOrder(show);
  const auto total = static_cast<size_t>(Number(Member(show, "summary"), "total_steps"));
  std::vector<RecordedStep> steps;
  // What an attempt began a step with that a later one did again.
  std::map<size_t, uint64_t> began;
  for (size_t i = 0; i < attempts.size(); ++i) {
    const auto first = static_cast<size_t>(Number(attempts[i], "first_step"));
    const size_t end = i + 1 < attempts.size()
                           ? static_cast<size_t>(Number(attempts[i + 1], "first_step"))
                           : total;
    EXPECT_EQ(steps.size(), first) << "attempt " << i + 1 << " begins where the last one is left";
    steps.resize(std::max(steps.size(), end));
    for (const Json& rank : RanksInOrder(attempts[i])) {
      const auto found = passes.find(static_cast<int64_t>(Number(rank, "pid")));
      const std::vector<RecordedStep> none;
      const std::vector<RecordedStep>& done = found == passes.end() ? none : found->second;
      EXPECT_GE(first + done.size(), end) << "attempt " << i + 1 << ", " << rank.dump();
      for (size_t step = first; step < first + done.size(); ++step) {
        const RecordedStep& pass = done[step - first];
        if (step == first && began.count(step) > 0) {
          EXPECT_EQ(pass.weights, began[step]) << "resumed with other weights, step " << step;
        }
        if (step >= end) {
          began[step] = pass.weights;
          continue;
        }
        if (steps[step].ids.empty()) steps[step].weights = pass.weights;
        EXPECT_EQ(pass.weights, steps[step].weights) << "step " << step << ", " << rank.dump();
        steps[step].ids.insert(steps[step].ids.end(), pass.ids.begin(), pass.ids.end());
      }
    }
  }
  return steps;
}

}  // namespace muster::testing
