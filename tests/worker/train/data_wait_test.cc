// Ranks that wait for data: what they hear meanwhile, and what they leave behind.
#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/train/stuck_dataset.h"
#include "tests/worker/train/training_run.h"
#include "worker/data/order/sampler.h"
#include "worker/train/run/failure.h"

namespace muster::worker {
namespace {

using muster::testing::ExpectSameBits;
using muster::testing::RunOutcome;
using muster::testing::RunTraining;
using muster::testing::StatusIs;
using muster::testing::StuckDataset;
using muster::testing::TempDir;
using muster::testing::TrainingRun;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Of the first epoch: its samples were not seen before.
constexpr int64_t kStuckStep = 4;

struct Waiting {
  const char* name;
  std::vector<int> ranks;  // that wait in vain
  int world_size = 2;
  bool resnet = false;
  Precision precision = Precision::kFp32;
  int64_t accumulate = 1;
  bool sync_batch_norm = false;
};

TrainingRun RunOf(const Waiting& waiting, const std::string& root) {
  TrainingRun run;
  run.world_size = waiting.world_size;
  run.resnet = waiting.resnet;
  run.sync_batch_norm = waiting.sync_batch_norm;
  run.root = root;
  run.ema = EmaConfig{.decay = 0.9};
  run.recipe.total_steps = 12;
  run.recipe.schedule = {ScheduleName::kCosine, 0.01, 3, 0.1, 12};
  run.recipe.precision = waiting.precision;
  run.recipe.accumulate = waiting.accumulate;
  run.recipe.loss_scale = {.initial = 1 << 24, .growth_interval = 3, .max_skips = 25};
  run.recipe.evaluation_batch_size = 3;
  run.recipe.save_every_epochs = 0;
  run.recipe.commit_timeout = absl::Minutes(1);
  return run;
}

// The first sample that `rank` has of the step.
int64_t SampleOf(const TrainingRun& run, int64_t step, int rank) {
  const Sampler sampler(static_cast<uint64_t>(run.samples), run.batch_size, run.seed);
  return sampler
      .Ids(static_cast<uint64_t>(step), EvenPart(run.batch_size, static_cast<uint32_t>(rank),
                                                 static_cast<uint32_t>(run.world_size)))
      .front();
}

bool Waits(const Waiting& waiting, int rank) {
  return std::count(waiting.ranks.begin(), waiting.ranks.end(), rank) > 0;
}

class StopInDataWait : public ::testing::TestWithParam<Waiting> {};

TEST_P(StopInDataWait, SavesTheLastFinishedStepBitForBit) {
  const Waiting& waiting = GetParam();
  TempDir whole_root, broken_root;
  TrainingRun run = RunOf(waiting, whole_root.path());
  const RunOutcome whole = RunTraining(run);
  ASSERT_OK(whole.ranks[0].result);

  run.root = broken_root.path();
  TrainingRun broken = run;
  std::vector<std::atomic<int>> asked(static_cast<size_t>(run.world_size));
  std::atomic<int> waiting_ranks = 0;
  broken.wrap_data = [&](int rank, std::unique_ptr<Dataset> data) -> std::unique_ptr<Dataset> {
    if (!Waits(waiting, rank)) return data;
    return std::make_unique<StuckDataset>(std::move(data), Split::kTrain,
                                          SampleOf(run, kStuckStep, rank),
                                          [&asked, rank] { asked[static_cast<size_t>(rank)] = 1; });
  };
  // A rank asks once a step, and more often only while it waits.
  broken.ask = [&](int rank) -> RequestedStop {
    std::atomic<int>& times = asked[static_cast<size_t>(rank)];
    if (times > 0 && ++times == 4) ++waiting_ranks;
    const bool all = waiting_ranks == static_cast<int>(waiting.ranks.size());
    return {.stop = all, .save = all};
  };
  const RunOutcome first = RunTraining(broken);
  for (const auto& rank : first.ranks) {
    ASSERT_OK(rank.result);
    EXPECT_TRUE(rank.result->stopped);
  }
  ASSERT_THAT(first.committed, SizeIs(1));
  EXPECT_EQ(first.committed[0].step, kStuckStep);

  run.candidates = {{first.committed[0].path, kStuckStep, first.committed[0].manifest_sha256}};
  run.attempt = 2;
  const RunOutcome second = RunTraining(run);
  ASSERT_OK(second.ranks[0].result);
  EXPECT_FALSE(second.ranks[0].result->stopped);
  ExpectSameBits(whole, second);
}

INSTANTIATE_TEST_SUITE_P(
    Ranks, StopInDataWait,
    ::testing::Values(
        Waiting{"alone", {0}, 1}, Waiting{"rank_0_of_2", {0}}, Waiting{"rank_1_of_2", {1}},
        Waiting{"both", {0, 1}}, Waiting{"rank_1_of_2_resnet", {1}, 2, true},
        Waiting{"both_resnet_synchronized", {0, 1}, 2, true, Precision::kFp32, 1, true},
        Waiting{"rank_2_of_3_resnet_fp16_accumulated", {2}, 3, true, Precision::kFp16, 2}),
    [](const auto& info) { return info.param.name; });

TEST(DataWait, AnEvaluationThatWaitsIsLeftByAllRanksAndRepeated) {
  for (const int waits : {0, 1}) {
    TempDir whole_root, broken_root;
    TrainingRun run = RunOf({}, whole_root.path());
    const RunOutcome whole = RunTraining(run);
    ASSERT_OK(whole.ranks[0].result);

    run.root = broken_root.path();
    std::atomic<bool> stuck = false;
    TrainingRun broken = run;
    // The last sample of its part: there may be no further meeting before the end.
    broken.wrap_data = [&](int rank, std::unique_ptr<Dataset> data) -> std::unique_ptr<Dataset> {
      if (rank != waits) return data;
      const int64_t size = data->size(Split::kValidation);
      const int64_t id = rank == 1 ? size - 1 : size / 2 - 1;
      return std::make_unique<StuckDataset>(std::move(data), Split::kValidation, id,
                                            [&] { stuck = true; });
    };
    broken.ask = [&](int rank) -> RequestedStop {
      const bool stop = stuck && rank == waits;
      return {.stop = stop, .save = stop};
    };
    const RunOutcome first = RunTraining(broken);
    for (const auto& rank : first.ranks) {
      ASSERT_OK(rank.result);
      EXPECT_TRUE(rank.result->stopped);
    }
    ASSERT_THAT(first.committed, SizeIs(1));

    run.candidates = {
        {first.committed[0].path, first.committed[0].step, first.committed[0].manifest_sha256}};
    run.attempt = 2;
    const RunOutcome second = RunTraining(run);
    ASSERT_OK(second.ranks[0].result);
    ExpectSameBits(whole, second);
    EXPECT_EQ(whole.ranks[0].result->results, second.ranks[0].result->results);
  }
}

TEST(DataWait, TellsThatItWaitsAndThatItIsAlive) {
  TempDir root;
  TrainingRun run = RunOf({"", {0}, 1}, root.path());
  run.wrap_data = [&](int, std::unique_ptr<Dataset> data) {
    return std::make_unique<StuckDataset>(std::move(data), Split::kTrain,
                                          SampleOf(run, kStuckStep, 0), [] {});
  };
  // They come a second apart at least: the log is written to before the last.
  constexpr int kBeats = 7;
  std::atomic<int> beats = 0;
  run.on_beat = [&](int, const std::string& phase) {
    if (phase == "waiting for data") ++beats;
  };
  run.ask = [&](int) -> RequestedStop { return {.stop = beats >= kBeats}; };
  ::testing::internal::CaptureStderr();
  const RunOutcome outcome = RunTraining(run);
  const std::string log = ::testing::internal::GetCapturedStderr();
  ASSERT_OK(outcome.ranks[0].result);
  EXPECT_TRUE(outcome.ranks[0].result->stopped);
  EXPECT_THAT(outcome.committed, SizeIs(0)) << "it was not asked to save";
  EXPECT_THAT(outcome.ranks[0].host.phases, Contains("waiting for data"));
  const size_t told = log.find("event=data_wait ");
  ASSERT_NE(told, log.npos) << log;
  const std::string line = log.substr(told, log.find('\n', told) - told);
  EXPECT_THAT(line, AllOf(HasSubstr(absl::StrCat("sample ", SampleOf(run, kStuckStep, 0))),
                          HasSubstr("HTTP 503")));
}

TEST(DataWait, BeforeTheFirstStepThereIsNothingToSave) {
  for (const int waits : {0, 1}) {
    TempDir root;
    TrainingRun run = RunOf({}, root.path());
    std::atomic<bool> stuck = false;
    run.wrap_data = [&](int rank, std::unique_ptr<Dataset> data) -> std::unique_ptr<Dataset> {
      if (rank != waits) return data;
      return std::make_unique<StuckDataset>(std::move(data), Split::kTrain, SampleOf(run, 0, rank),
                                            [&] { stuck = true; });
    };
    run.ask = [&](int) -> RequestedStop { return {.stop = stuck, .save = stuck}; };
    const RunOutcome outcome = RunTraining(run);
    ASSERT_OK(outcome.ranks[static_cast<size_t>(waits)].result);
    EXPECT_TRUE(outcome.ranks[static_cast<size_t>(waits)].result->stopped);
    EXPECT_THAT(outcome.committed, SizeIs(0));
    // It met the others nowhere: they lost it, which main takes for a stop where it was asked for.
    const absl::Status other = outcome.ranks[static_cast<size_t>(1 - waits)].result.status();
    EXPECT_EQ(FailureClassOf(other), "PEER_LOST") << other;
  }
}

TEST(DataWait, EndsWithTheNameOfWhatDidNotCome) {
  TempDir root;
  TrainingRun run = RunOf({"", {0}, 1}, root.path());
  run.recipe.data_timeout = absl::Nanoseconds(1);  // a wait of a turn is longer
  run.wrap_data = [&](int, std::unique_ptr<Dataset> data) {
    return std::make_unique<StuckDataset>(std::move(data), Split::kTrain,
                                          SampleOf(run, kStuckStep, 0), [] {});
  };
  const RunOutcome outcome = RunTraining(run);
  const absl::Status failed = outcome.ranks[0].result.status();
  EXPECT_THAT(
      failed,
      StatusIs(absl::StatusCode::kUnavailable,
               AllOf(HasSubstr("a batch has not come in"), HasSubstr("restart.progress_timeout"),
                     HasSubstr(absl::StrCat("sample ", SampleOf(run, kStuckStep, 0))),
                     HasSubstr("HTTP 503"))));
  EXPECT_EQ(FailureClassOf(failed), "STORAGE_UNAVAILABLE");
}

}  // namespace
}  // namespace muster::worker
