// A job that goes on with another number of ranks, again and again: each sample of each epoch is
// learned exactly once, in the order of a run on one rank, and the loss stays with that run's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "tests/integration/run_record.h"
#include "tests/integration/sample_record.h"
#include "tests/support/cluster.h"

namespace muster::testing {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(1);
// A prime: no batch, and no share of a rank, ends with an epoch.
constexpr int64_t kSamples = 607;
constexpr int64_t kHeldBack = 60;  // of each other set
constexpr int kFeatures = 9;       // the id, and eight to learn from
constexpr int kClasses = 3;
constexpr int kEpochs = 40;
// Steps that are trained at a size before it changes.
constexpr int kStepsAtASize = 20;
// Another world size sums the same gradients in another order. Relative, of each reported loss and
// of the final test's.
constexpr double kLossBound = 1e-5;

// One array as numpy.save writes it.
void WriteNpy(const std::string& path, const std::string& descr, const std::string& shape,
              const std::string& data) {
  std::string header =
      absl::StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (", shape, "), }");
  header.resize((header.size() + 10 + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  std::ofstream out(path, std::ios::binary);
  out << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size() & 0xff)
      << static_cast<char>(header.size() >> 8) << header << data;
}

template <typename Value>
void Append(Value value, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Samples whose first feature is their id; the others are made up, and their class follows from
// them.
void WriteSet(const std::string& folder, const std::string& split, int64_t count) {
  std::string inputs, targets;
  for (int64_t id = 0; id < count; ++id) {
    Append(static_cast<float>(id), inputs);
    double score = 0;
    for (int feature = 1; feature < kFeatures; ++feature) {
      const uint64_t draw =
          DeriveSeed(split.size(), static_cast<uint64_t>(id), static_cast<uint64_t>(feature));
      const double value = static_cast<double>(draw % 2001) / 1000 - 1;
      Append(static_cast<float>(value), inputs);
      score += feature % 2 == 0 ? value : -value;
    }
    Append(static_cast<int64_t>(score < -0.7 ? 0 : score < 0.7 ? 1 : 2), targets);
  }
  WriteNpy(absl::StrCat(folder, "/", split, "_inputs.npy"), "<f4",
           absl::StrCat(count, ", ", kFeatures), inputs);
  WriteNpy(absl::StrCat(folder, "/", split, "_targets.npy"), "<i8", absl::StrCat(count, ","),
           targets);
}

class WorldSize : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(cluster_.Path("data"));
    WriteSet(cluster_.Path("data"), "train", kSamples);
    WriteSet(cluster_.Path("data"), "validation", kHeldBack);
    WriteSet(cluster_.Path("data"), "test", kHeldBack);
    ASSERT_NO_FATAL_FAILURE(cluster_.Up(3));
  }
  void TearDown() override { cluster_.Down(); }

  std::string RecordPath(const std::string& name) { return cluster_.Path(name + ".samples"); }
  std::string Job(const std::string& name, const std::string& ranks, int pause_ms) {
    return absl::StrCat("name: ", name, "\nranks: ", ranks,
                        "\ntrain:\n  model: {plugin: {path: ", SAMPLE_RECORDER,
                        ", options: {record: ", RecordPath(name), ", pause_ms: \"", pause_ms,
                        "\"}}}\n  data: {numpy: {path: ", cluster_.Path("data"),
                        "}}\n  batch_size: 32\n  epochs: ", kEpochs,
                        "\n  optimizer: {name: sgd, lr: 0.05, momentum: 0.9}\n"
                        "  schedule: {name: constant}\n  seed: 11\n  report_every_steps: 5\n"
                        "  validate_every_epochs: 0\n"
                        "checkpoint: {every_steps: 15, every_epochs: 0}\n"
                        "restart: {backoff: 100ms}\n");
  }
  void Do(const std::vector<std::string>& args) {
    const ProcessResult result = cluster_.Cli(args);
    EXPECT_EQ(result.exit_code, 0) << args.front() << ": " << result.err;
  }
  // Until the job has trained for a while on so many ranks.
  void AwaitSize(uint64_t job, size_t ranks) {
    Json show;
    ASSERT_TRUE(WaitUntil(kPatience,
                          [&] {
                            show = cluster_.Show(job);
                            const std::vector<Json> attempts = AttemptsInOrder(show);
                            if (Text(Member(show, "summary"), "state") != "RUNNING" ||
                                attempts.empty() ||
                                Member(attempts.back(), "ranks").size() != ranks)
                              return false;
                            return Number(attempts.back(), "last_step") >=
                                   Number(attempts.back(), "first_step") + kStepsAtASize;
                          }))
        << "not on " << ranks << " ranks: " << show.dump(1);
  }
  // Has the job leave, changes its workers, and lets it come back.
  void ComeBack(uint64_t job, const std::vector<std::string>& change) {
    Do({"suspend", absl::StrCat(job)});
    ASSERT_TRUE(WaitUntil(kPatience, [&] { return cluster_.State(job) == "SUSPENDED"; }));
    Do(change);
    Do({"resume", absl::StrCat(job)});
  }

  Cluster cluster_;
};

TEST_F(WorldSize, EachSampleComesOnceOverEveryChangeAndTheLossStaysWithTheUndisturbedRun) {
  const uint64_t untouched = cluster_.Submit(Job("untouched", "1", /*pause_ms=*/0));
  ASSERT_EQ(cluster_.WaitForEnd(untouched), "SUCCEEDED") << cluster_.Show(untouched).dump(1);

  const uint64_t job = cluster_.Submit(Job("changed", "{min: 1, max: 3}", /*pause_ms=*/20));
  ASSERT_NO_FATAL_FAILURE(AwaitSize(job, 3));
  Do({"nodes", "drain", "worker-1", "worker-2", "--reason", "smaller"});
  ASSERT_NO_FATAL_FAILURE(AwaitSize(job, 1));
  ASSERT_NO_FATAL_FAILURE(ComeBack(job, {"nodes", "undrain", "worker-1"}));
  ASSERT_NO_FATAL_FAILURE(AwaitSize(job, 2));
  // Without a save: the steps since its newest checkpoint are done again.
  ASSERT_EQ(::kill(cluster_.RankProcesses(job)[1].pid, SIGKILL), 0);
  const size_t attempts_before = Member(cluster_.Show(job), "attempts").size();
  ASSERT_TRUE(WaitUntil(
      kPatience, [&] { return Member(cluster_.Show(job), "attempts").size() > attempts_before; }));
  ASSERT_NO_FATAL_FAILURE(AwaitSize(job, 2));
  ASSERT_NO_FATAL_FAILURE(ComeBack(job, {"nodes", "undrain", "worker-2"}));
  ASSERT_NO_FATAL_FAILURE(AwaitSize(job, 3));
  Do({"nodes", "drain", "worker-3", "--reason", "smaller again"});
  ASSERT_EQ(cluster_.WaitForEnd(job), "SUCCEEDED") << cluster_.Show(job).dump(1);

  const Json show = cluster_.Show(job);
  ExpectResumedFromNewestCheckpoint(show);
  const std::vector<RecordedStep> reference =
      ReadSteps(RecordPath("untouched"), cluster_.Show(untouched));
  const std::vector<RecordedStep> steps = ReadSteps(RecordPath("changed"), show);
  ASSERT_EQ(steps.size(), reference.size());
  std::vector<int64_t> order;
  for (size_t step = 0; step < steps.size(); ++step) {
    EXPECT_EQ(steps[step].ids, reference[step].ids) << "step " << step + 1;
    order.insert(order.end(), steps[step].ids.begin(), steps[step].ids.end());
  }
  ASSERT_EQ(order.size(), static_cast<size_t>(kEpochs * kSamples));
  std::vector<int64_t> all(kSamples);
  std::iota(all.begin(), all.end(), 0);
  for (auto epoch = order.begin(); epoch != order.end(); epoch += kSamples) {
    EXPECT_TRUE(std::is_permutation(epoch, epoch + kSamples, all.begin()))
        << "epoch " << (epoch - order.begin()) / kSamples;
  }

  const MetricTable losses = ReadRun(cluster_, job).metrics;
  const MetricTable wanted = ReadRun(cluster_, untouched).metrics;
  double farthest = 0;
  int compared = 0;
  for (const auto& [key, value] : wanted) {
    if (key.first != "loss" && key.first != "test_loss") continue;
    const auto found = losses.find(key);
    ASSERT_NE(found, losses.end()) << key.first << " at step " << key.second;
    farthest = std::max(farthest, std::abs(found->second - value) / value);
    ++compared;
  }
  EXPECT_GT(compared, static_cast<int>(steps.size()) / 5);
  EXPECT_LE(farthest, kLossBound);
  // Of two workers that are drained together the second may be a size later.
  std::string sizes;
  for (const Json& attempt : AttemptsInOrder(show))
    absl::StrAppend(&sizes, " ", Member(attempt, "ranks").size());
  EXPECT_THAT(sizes, ::testing::AnyOf(" 3 1 2 2 3 2", " 3 2 1 2 2 3 2"));
  std::cout << "[ sizes    ]" << sizes << "; " << compared << " losses, the farthest " << farthest
            << " of its value away" << std::endl;
}

}  // namespace
}  // namespace muster::testing
