#include "worker/train/loop.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <limits>
#include <map>

#include "common/base/deadline.h"
#include "common/base/mutex.h"
#include "common/ckpt/checkpoint_root.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/train/dropout_model.h"
#include "tests/worker/train/training_run.h"
#include "worker/checkpoint/saver.h"
#include "worker/models/mlp.h"
#include "worker/train/memory/memory_estimate.h"
#include "worker/train/run/failure.h"

namespace muster::worker {
namespace {

using muster::testing::ExpectSameBits;
using muster::testing::ExpectSameBitsOnAllRanks;
using muster::testing::RunOutcome;
using muster::testing::RunTraining;
using muster::testing::StatusIs;
using muster::testing::StopAfter;
using muster::testing::TempDir;
using muster::testing::TrainingRun;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TrainingRun SmallRun(const std::string& root) {
  TrainingRun run;
  run.world_size = 2;
  run.root = root;
  run.recipe.total_steps = 12;
  run.recipe.schedule = {ScheduleName::kCosine, 0.01, 3, 0.1, 12};
  run.recipe.clip_norm = 0.5;
  run.label_smoothing = 0.1;
  run.recipe.report_every_steps = 4;
  run.recipe.evaluation_batch_size = 3;
  run.recipe.commit_timeout = absl::Minutes(1);
  return run;
}

// The newest committed checkpoint up to `step`, as the controller would offer it.
std::vector<CheckpointCandidate> CandidatesUpTo(const RunOutcome& outcome, int64_t step) {
  std::vector<CheckpointCandidate> candidates;
  for (const CheckpointNews& news : outcome.committed) {
    if (news.step <= step)
      candidates.insert(candidates.begin(), {news.path, news.step, news.manifest_sha256});
  }
  return candidates;
}

enum class Net { kMlp, kResNet, kDropout };

struct Variant {
  const char* name;
  Net net;
  bool adamw;
  Precision precision;
  int64_t accumulate = 1;
  int world_size = 2;
  Transport transport = Transport::kSharedMemory;
  bool checkpoint_blocks = false;
  double clip_value = 0;
};

TrainingRun RunOf(const Variant& variant, const std::string& root) {
  TrainingRun run = SmallRun(root);
  run.resnet = variant.net == Net::kResNet;
  run.world_size = variant.world_size;
  run.transport = variant.transport;
  if (variant.net == Net::kDropout) {
    run.world_size = 1;  // threads of one process would draw from one generator in turn
    run.make_model = [](const ModelContext& context) {
      return std::make_unique<muster::testing::DropoutModel>(context);
    };
  }
  run.adamw = variant.adamw;
  run.recipe.precision = variant.precision;
  run.recipe.accumulate = variant.accumulate;
  run.checkpoint_blocks = variant.checkpoint_blocks;
  run.recipe.clip_value = variant.clip_value;
  if (variant.clip_value > 0) run.recipe.clip_norm = 0;
  // Skips the first steps and grows before the end: each half of the run has its own scales.
  run.recipe.loss_scale = {.initial = 1 << 24, .growth_interval = 3, .max_skips = 25};
  run.recipe.save_every_steps = 4;
  run.recipe.save_every_epochs = 0;
  return run;
}

class Resume : public ::testing::TestWithParam<Variant> {};

TEST_P(Resume, EqualsNeverHavingStoppedBitForBit) {
  TempDir whole_root, broken_root, again_root;
  TrainingRun run = RunOf(GetParam(), whole_root.path());
  const RunOutcome whole = RunTraining(run);
  ASSERT_OK(whole.ranks[0].result);
  run.root = again_root.path();
  const RunOutcome rerun = RunTraining(run);
  ASSERT_OK(rerun.ranks[0].result);
  ExpectSameBits(whole, rerun);
  if (GetParam().precision == Precision::kFp16) {
    EXPECT_GT(whole.ranks[0].host.metrics.at("skipped_steps").at(12), 0);
  }
  EXPECT_EQ(whole.ranks[0].host.metrics.at("loss"), rerun.ranks[0].host.metrics.at("loss"));

  run.root = broken_root.path();
  ASSERT_NO_FATAL_FAILURE(StopAfter(4, run));
  const RunOutcome second = RunTraining(run);
  ASSERT_OK(second.ranks[0].result);
  EXPECT_FALSE(second.ranks[0].result->stopped);
  ExpectSameBits(whole, second);
  EXPECT_EQ(whole.ranks[0].result->results, second.ranks[0].result->results);
}

INSTANTIATE_TEST_SUITE_P(
    AllRecipes, Resume,
    ::testing::Values(
        Variant{"mlp_adamw", Net::kMlp, true, Precision::kFp32},
        Variant{"mlp_sgd_bf16", Net::kMlp, false, Precision::kBf16},
        Variant{"mlp_adamw_fp16", Net::kMlp, true, Precision::kFp16},
        Variant{"mlp_sgd_tf32", Net::kMlp, false, Precision::kTf32},
        Variant{"resnet_adamw_bf16", Net::kResNet, true, Precision::kBf16},
        Variant{"resnet_sgd", Net::kResNet, false, Precision::kFp32},
        Variant{"resnet_sgd_fp16", Net::kResNet, false, Precision::kFp16},
        Variant{"resnet_adamw_accumulated", Net::kResNet, true, Precision::kFp32, 3},
        Variant{"resnet_sgd_recomputed_bf16", Net::kResNet, false, Precision::kBf16, 2, 2,
                Transport::kSharedMemory, true},
        Variant{"mlp_adamw_clipped_by_value", Net::kMlp, true, Precision::kFp32, 1, 2,
                Transport::kSharedMemory, false, 0.01},
        Variant{"dropout_accumulated", Net::kDropout, true, Precision::kFp32, 4},
        Variant{"dropout_accumulated_fp16", Net::kDropout, false, Precision::kFp16, 2},
        Variant{"mlp_adamw_gloo", Net::kMlp, true, Precision::kFp32, 1, 2, Transport::kGloo},
        Variant{"mlp_adamw_4_ranks", Net::kMlp, true, Precision::kFp32, 1, 4},
        Variant{"resnet_adamw_4_ranks", Net::kResNet, true, Precision::kFp32, 1, 4}),
    [](const auto& info) { return info.param.name; });

TEST(Train, ValidatesWhatItSavesWhenAskedTo) {
  for (const bool before_save : {false, true}) {
    TempDir root;
    TrainingRun run = SmallRun(root.path());
    run.recipe.schedule.peak = 0;  // the first validation stays the best: no save for a better one
    run.recipe.validate_every_epochs = 0;
    run.recipe.save_every_epochs = 0;
    run.recipe.save_every_steps = 4;
    run.recipe.validate_before_save = before_save;
    const RunOutcome outcome = RunTraining(run);
    ASSERT_OK(outcome.ranks[0].result);
    std::vector<int64_t> validated;
    for (const auto& [step, loss] : outcome.ranks[0].host.metrics.at("validation_loss"))
      validated.push_back(step);
    EXPECT_EQ(validated,
              before_save ? std::vector<int64_t>({4, 8, 12}) : std::vector<int64_t>({12}));
    ASSERT_THAT(outcome.committed, SizeIs(3));
    for (const CheckpointNews& news : outcome.committed) {
      EXPECT_EQ(news.metrics.contains("validation_loss"), before_save || news.step == 12)
          << "step " << news.step;
    }
  }
}

TEST(Train, SavesByTimeOnAllRanksAtTheSameStep) {
  TempDir root;
  TrainingRun run = SmallRun(root.path());
  run.recipe.validate_every_epochs = 0;
  run.recipe.save_every_epochs = 0;
  const RunOutcome never = RunTraining(run);
  ASSERT_OK(never.ranks[0].result);
  ASSERT_THAT(never.committed, SizeIs(1));
  EXPECT_EQ(never.committed[0].step, 12) << "the last step is always saved";

  TempDir other_root;
  run.root = other_root.path();
  run.recipe.save_every = absl::Nanoseconds(1);  // after each step, as far as saves keep up
  const RunOutcome timed = RunTraining(run);
  ASSERT_OK(timed.ranks[0].result);
  ASSERT_OK(timed.ranks[1].result);
  EXPECT_EQ(timed.committed.front().step, 1);
  ExpectSameBits(never, timed);
}

TEST(Train, EndsWithTheSameWeightsOnAllRanksAndReportsItsResults) {
  TempDir root;
  TrainingRun run = SmallRun(root.path());
  run.resnet = true;
  const RunOutcome outcome = RunTraining(run);
  ASSERT_OK(outcome.ranks[0].result);
  const auto& results = outcome.ranks[0].result->results;
  EXPECT_EQ(results.at("final_step"), 12);
  EXPECT_EQ(results.count("test_accuracy") + results.count("best_step"), 2u);
  EXPECT_EQ(results, outcome.ranks[1].result->results);
  ExpectSameBitsOnAllRanks(outcome);
  const auto& metrics = outcome.ranks[0].host.metrics;
  for (const char* name :
       {"loss", "lr", "grad_norm", "samples_per_second", "step_seconds", "communication_seconds",
        "memory_bytes", "memory_peak_bytes", "train_accuracy", "epoch"}) {
    EXPECT_THAT(metrics.at(name), SizeIs(3)) << name;
  }
  EXPECT_EQ(metrics.at("test_accuracy").count(12), 1u);
  // What belongs to the gang comes from one rank.
  EXPECT_EQ(outcome.ranks[1].host.metrics.count("loss"), 0u);
  EXPECT_EQ(outcome.ranks[1].host.metrics.count("rank_samples_per_second"), 1u);
}

TEST(Train, AnyNumberOfRanksSeesTheSameBatches) {
  std::vector<RunOutcome> outcomes;
  for (const int world : {1, 2, 3}) {
    TempDir root;
    TrainingRun run = SmallRun(root.path());
    run.world_size = world;
    outcomes.push_back(RunTraining(run));
    ASSERT_OK(outcomes.back().ranks[0].result);
  }
  for (const RunOutcome& outcome : outcomes) {
    for (const auto& [step, loss] : outcome.ranks[0].host.metrics.at("loss")) {
      EXPECT_NEAR(loss, outcomes[0].ranks[0].host.metrics.at("loss").at(step), 1e-4);
    }
    // Exact, for it is a count: ragged shards of the 10 validation samples leave nothing out.
    EXPECT_NEAR(outcome.ranks[0].result->results.at("test_loss"),
                outcomes[0].ranks[0].result->results.at("test_loss"), 1e-3);
  }
}

TEST(Train, TheWishOfOneRankStopsAllAtTheSameStep) {
  for (const bool save : {false, true}) {
    TempDir root;
    TrainingRun run = SmallRun(root.path());
    run.world_size = 3;
    run.recipe.save_every_epochs = 0;
    run.recipe.validate_every_epochs = 0;
    run.requested = {.stop = true, .save = save};
    run.requested_after_step = 4;
    const RunOutcome outcome = RunTraining(run);
    for (const auto& rank : outcome.ranks) {
      ASSERT_OK(rank.result);
      EXPECT_TRUE(rank.result->stopped);
    }
    // The request is seen after the report of step 4 and agreed on within the next one.
    ASSERT_THAT(outcome.committed, SizeIs(save ? 1 : 0));
    if (save) {
      EXPECT_EQ(outcome.committed[0].step, 5);
    }
  }
}

TEST(Train, AGradientThatIsNotFiniteFailsAllRanksWithTheStep) {
  TempDir root;
  TrainingRun run = SmallRun(root.path());
  const RunOutcome outcome = RunTraining(run, [](Model& model) {
    at::Tensor weight = model.parameters().front().tensor.detach();
    weight.fill_(std::numeric_limits<float>::quiet_NaN());
  });
  for (const auto& rank : outcome.ranks) {
    EXPECT_THAT(rank.result, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("step 1:")));
    EXPECT_EQ(FailureClassOf(rank.result.status()), kNonFinite);
  }
  EXPECT_TRUE(outcome.committed.empty());
}

// The first layer's outputs are already above what fp16 holds.
TEST(Train, EndsAfterTooManyOverflowsInARowAndReportsTheScaleUntilThen) {
  TempDir root;
  TrainingRun run = SmallRun(root.path());
  run.recipe.precision = Precision::kFp16;
  run.recipe.report_every_steps = 1;
  run.recipe.loss_scale = {.initial = 1 << 10, .growth_interval = 2, .max_skips = 4};
  const RunOutcome outcome = RunTraining(run, [](Model& model) {
    at::Tensor weight = model.parameters().front().tensor.detach();
    weight.fill_(1e6);
  });
  for (const auto& rank : outcome.ranks) {
    EXPECT_THAT(rank.result,
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("step 4: the gradient overflowed fp16 in 4 steps")));
    EXPECT_EQ(FailureClassOf(rank.result.status()), kNonFinite);
  }
  const auto& metrics = outcome.ranks[0].host.metrics;
  EXPECT_EQ(metrics.at("loss_scale").at(1), 512);
  EXPECT_EQ(metrics.at("loss_scale").at(3), 128);
  EXPECT_EQ(metrics.at("skipped_steps").at(3), 3);
  EXPECT_EQ(metrics.count("loss"), 0u) << "a number that is none is not sent";
}

// Like a batch that does not fit: fails from its `good` + 1st training pass on.
class GreedyModel final : public Model {
 public:
  GreedyModel(const ModelContext& context, int good) : good_(good) {
    weight_ =
        AddParameter("weight", at::ones({context.classes, context.input_shape[0]}), context.device);
  }
  ModelOutput Forward(const at::Tensor& inputs) override {
    if (passes_++ >= good_) at::empty({int64_t{1} << 50});
    return {at::linear(inputs, weight_)};
  }

 private:
  const int good_;
  int passes_ = 0;
  at::Tensor weight_;
};

TEST(Train, RunningOutOfMemoryNamesThePartsThatUsedItAndWhatToChange) {
  for (const int good : {0, 6}) {  // in the estimate itself, and in a step
    TempDir root;
    TrainingRun run = SmallRun(root.path());
    run.world_size = 1;
    run.make_model = [good](const ModelContext& context) {
      return std::make_unique<GreedyModel>(context, good);
    };
    const RunOutcome outcome = RunTraining(run);
    const absl::Status status = outcome.ranks[0].result.status();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted));
    EXPECT_EQ(FailureClassOf(status), kOutOfMemory);
    for (const char* part : {"out of memory: ", "; the run was estimated to need ", "program ",
                             "weights 192 B", "gradients 192 B", "optimizer ", "data ",
                             "try a smaller train.batch_size, train.accumulate above 1"}) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    }
    EXPECT_EQ(std::string(status.message()).find("activations ") != std::string::npos, good > 0);
  }
}

// Notes how many samples each pass had.
class CountingModel final : public Model {
 public:
  CountingModel(const ModelContext& context, std::vector<int64_t>& samples) : samples_(samples) {
    weight_ =
        AddParameter("weight", at::ones({context.classes, context.input_shape[0]}), context.device);
  }
  ModelOutput Forward(const at::Tensor& inputs) override {
    samples_.push_back(inputs.size(0));
    return {at::linear(inputs, weight_)};
  }

 private:
  std::vector<int64_t>& samples_;
  at::Tensor weight_;
};

TEST(Train, ResumesWithoutRehearsingItsMemoryAgain) {
  TempDir root;
  TrainingRun run = SmallRun(root.path());
  run.world_size = 1;
  std::vector<int64_t> samples;
  run.make_model = [&samples](const ModelContext& context) {
    return std::make_unique<CountingModel>(context, samples);
  };
  StopAfter(4, run);
  EXPECT_EQ(samples.front(), kDrySamples);
  samples.clear();
  const RunOutcome resumed = RunTraining(run);
  ASSERT_OK(resumed.ranks[0].result);
  EXPECT_EQ(samples.front(), static_cast<int64_t>(run.batch_size)) << "a step";
  const auto& estimates = resumed.ranks[0].host.metrics.at("memory_estimate_bytes");
  EXPECT_GT(estimates.begin()->second, 1e6);
  EXPECT_THAT(resumed.ranks[0].host.memory_need, HasSubstr("activations "));
}

TEST(Train, ReportsTheMemoryEstimateWithTheOtherNumbersOfAStep) {
  TempDir root;
  TrainingRun run = SmallRun(root.path());
  const RunOutcome outcome = RunTraining(run);
  for (const auto& rank : outcome.ranks) {
    const auto& estimates = rank.host.metrics.at("memory_estimate_bytes");
    ASSERT_FALSE(estimates.empty());
    EXPECT_EQ(estimates.size(), rank.host.metrics.at("memory_bytes").size());
    EXPECT_GT(estimates.begin()->second, 1e6);
    EXPECT_THAT(rank.host.memory_need, HasSubstr("the run was estimated to need "));
    EXPECT_THAT(rank.host.memory_need, HasSubstr("): try a smaller train.batch_size"));
  }
}

TEST(Train, ReportsTheTopFiveOfMoreThanFiveClasses) {
  TempDir root;
  TrainingRun run = SmallRun(root.path());
  run.make_model = [](const ModelContext& context) {
    ModelContext seven = context;
    seven.classes = 7;  // three of which are never right
    return MakeMlp({{16}}, seven);
  };
  const RunOutcome outcome = RunTraining(run);
  ASSERT_OK(outcome.ranks[0].result);
  const auto& results = outcome.ranks[0].result->results;
  EXPECT_GT(results.at("test_top5_accuracy"), results.at("test_accuracy"));
  EXPECT_EQ(outcome.ranks[0].host.metrics.at("validation_top5_accuracy").count(12), 1u);
  run.make_model = nullptr;
  run.root += "/four";
  EXPECT_EQ(RunTraining(run).ranks[0].result->results.count("test_top5_accuracy"), 0u);
}

TEST(Train, TakesTheNextCheckpointWhenTheNewestIsCorrupt) {
  TempDir root;
  TrainingRun run = SmallRun(root.path());
  run.recipe.save_every_steps = 4;
  const RunOutcome whole = RunTraining(run);
  ASSERT_OK(whole.ranks[0].result);
  run.attempt = 2;
  run.candidates = CandidatesUpTo(whole, 11);
  ASSERT_GE(run.candidates.size(), 2u);
  const std::string broken = run.candidates[0].path;
  std::fstream(broken + "/model.safetensors", std::ios::in | std::ios::out | std::ios::binary)
          .seekp(200)
      << "broken";
  // Of the first attempt, and newer than all candidates: it must not be picked up behind the test's
  // back.
  std::filesystem::remove_all(whole.committed.back().path);
  const RunOutcome again = RunTraining(run);
  ASSERT_OK(again.ranks[0].result);
  EXPECT_THAT(again.ranks[0].host.corrupt, ElementsAre(broken));
  ExpectSameBits(whole, again);
}

TEST(Train, ChoosesTheBestAnewWhenItsCheckpointIsLost) {
  TempDir root;
  TrainingRun run = SmallRun(root.path());
  run.recipe.schedule.peak = 0;  // nothing is learned: the first validation stays the best
  run.recipe.validate_every_steps = 1;
  run.recipe.save_every_steps = 4;
  const RunOutcome whole = RunTraining(run);
  ASSERT_OK(whole.ranks[0].result);
  ASSERT_EQ(whole.ranks[0].result->results.at("best_step"), 1);
  run.attempt = 2;
  run.candidates = CandidatesUpTo(whole, 11);
  ASSERT_EQ(run.candidates.back().step, 1);
  run.candidates.pop_back();
  std::filesystem::remove_all(whole.committed.back().path);  // newer than all candidates
  const RunOutcome again = RunTraining(run);
  ASSERT_OK(again.ranks[0].result);
  EXPECT_EQ(again.ranks[0].result->results.at("best_step"), run.candidates[0].step);
}

// The offered checkpoint of step 1 is the best one of a run that goes on from that of step 8.
TrainingRun RunWithBestAtOne(const std::string& root, const CheckpointRoot& holder = {}) {
  TrainingRun run = SmallRun(root);
  run.holder = holder;
  run.recipe.schedule.peak = 0;  // nothing is learned: the first validation stays the best
  run.recipe.validate_every_steps = 1;
  run.recipe.save_every_epochs = 0;
  run.recipe.save_every_steps = 4;
  const RunOutcome whole = RunTraining(run);
  EXPECT_OK(whole.ranks[0].result);
  for (const CheckpointNews& news : whole.committed) {
    if (news.step > 8) std::filesystem::remove_all(news.path);
  }
  run.attempt = 2;
  run.candidates = CandidatesUpTo(whole, 8);
  EXPECT_EQ(run.candidates.front().step, 8);
  EXPECT_EQ(run.candidates.back().step, 1);
  return run;
}

TEST(Train, TellsOfABestCheckpointThatIsNotThereOrBrokenBeforeItForgetsIt) {
  for (const bool broken : {false, true}) {
    TempDir root;
    const TrainingRun run = RunWithBestAtOne(root.path());
    const std::string best = run.candidates.back().path;
    if (broken) {
      std::fstream file(best + "/model.safetensors",
                        std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(200) << "broken";
    } else {
      std::filesystem::remove_all(best);
    }
    const RunOutcome again = RunTraining(run);
    ASSERT_OK(again.ranks[0].result);
    EXPECT_EQ(again.ranks[0].result->results.at("best_step"), 8);
    const muster::testing::FakeRunHost& agent = again.ranks[0].host;
    const std::vector<std::string> one = {best}, none;
    EXPECT_EQ(agent.corrupt, broken ? one : none);
    EXPECT_EQ(agent.unread, broken ? none : one);
  }
}

// The mount goes while the checkpoint that was just loaded is being registered.
TEST(Train, ABestCheckpointIsNotForgottenBecauseItsRootWentMeanwhile) {
  TempDir root;
  ASSERT_OK(ClaimRoot(PosixFileSystem(), {root.path(), "abc1"}, {}, "test"));
  TrainingRun run = RunWithBestAtOne(root / "job-1", {.path = root.path(), .identity = "abc1"});
  run.candidates = {run.candidates.back()};  // that of step 8 died before it was registered
  run.before_commit = [&root] {
    std::filesystem::rename(root / "job-1", root / "away");
    std::filesystem::remove(root / kRootMarker);
  };
  const RunOutcome outcome = RunTraining(run);
  int tell = 0;
  for (const auto& rank : outcome.ranks) {
    EXPECT_THAT(rank.host.phases, Not(Contains("train"))) << "it chose another best one";
    // Whoever leaves with the verdict first is missed by a rank that was still telling it.
    if (FailureClassOf(rank.result.status()) == kPeerLost) continue;
    EXPECT_THAT(rank.result, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("is it mounted?")));
    EXPECT_EQ(FailureClassOf(rank.result.status()), kStorageUnavailable);
    ++tell;
  }
  EXPECT_GE(tell, 1);
  EXPECT_THAT(outcome.committed, SizeIs(1)) << "the look was after it";
  EXPECT_THAT(outcome.ranks[0].host.corrupt, IsEmpty());
  EXPECT_THAT(outcome.ranks[0].host.unread, IsEmpty());
}

// How often each rank said that a phase goes on.
class Beats {
 public:
  explicit Beats(int ranks) : ranks_(static_cast<size_t>(ranks)) {}
  // Returns how often this one did so.
  int Note(int rank, const std::string& phase) {
    MutexLock lock(mutex_);
    changed_.NotifyAll();
    return ++heard_[phase][rank];
  }
  // Whether each rank did `times`; waits for it a minute at most.
  bool AwaitAll(const std::string& phase, int times) {
    const Deadline deadline(absl::Minutes(1));
    MutexLock lock(mutex_);
    while (!HasAllLocked(phase, times) && !deadline.over())
      changed_.WaitFor(mutex_, deadline.left());
    return HasAllLocked(phase, times);
  }

 private:
  bool HasAllLocked(const std::string& phase, int times) MUSTER_REQUIRES(mutex_) {
    size_t ranks = 0;
    for (const auto& [rank, count] : heard_[phase]) ranks += count >= times ? 1 : 0;
    return ranks == ranks_;
  }

  const size_t ranks_;
  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, std::map<int, int>> heard_ MUSTER_GUARDED_BY(mutex_);
};

// A validation of ten samples says it once, and who waits after it for a save, each second.
constexpr int kMoreThanAValidation = 3;

// A save at step 8 and the last one.
TrainingRun RunWithTwoSaves(const std::string& root) {
  TrainingRun run = SmallRun(root);
  run.recipe.validate_every_epochs = 0;
  run.recipe.save_every_epochs = 0;
  run.recipe.save_every_steps = 8;
  return run;
}

// First for the save on its way, still in the phase of the validation, then for the last one.
TEST(Train, AllRanksLookAliveWhileTheyWaitForTheLastSaves) {
  TempDir root;
  TrainingRun run = RunWithTwoSaves(root.path());
  Beats beats(run.world_size);
  run.on_beat = [&beats](int rank, const std::string& phase) { beats.Note(rank, phase); };
  int commits = 0;
  run.before_commit = [&] {
    if (++commits == 1) {
      EXPECT_TRUE(beats.AwaitAll("evaluate", kMoreThanAValidation)) << "some rank is not heard";
    } else {
      EXPECT_TRUE(beats.AwaitAll("save", 1)) << "some rank is not heard";
    }
  };
  const RunOutcome outcome = RunTraining(run);
  ASSERT_OK(outcome.ranks[0].result);
  EXPECT_EQ(commits, 2);
}

TEST(Train, ARequestToStopWhileTheLastSaveWaitsForAnotherMakesItUrgent) {
  TempDir root;
  TrainingRun run = RunWithTwoSaves(root.path());
  run.commit_when_superseded = true;  // the controller is away
  Beats beats(run.world_size);
  std::atomic<bool> wanted = false;
  run.on_beat = [&](int rank, const std::string& phase) {
    const int times = beats.Note(rank, phase);
    if (rank == 0 && phase == "evaluate" && times >= kMoreThanAValidation) wanted = true;
  };
  run.ask = [&wanted](int rank) {
    return rank == 0 && wanted ? RequestedStop{.stop = true, .save = true} : RequestedStop();
  };
  const RunOutcome outcome = RunTraining(run);
  for (const auto& rank : outcome.ranks) ASSERT_OK(rank.result);
  ASSERT_THAT(outcome.committed, SizeIs(1)) << "what was on its way holds it up";
  EXPECT_EQ(outcome.committed[0].step, 12);
}

// Whose loss of some evaluations is no number, as that of a model that overflowed on one sample.
class HoleyObjective final : public Objective {
 public:
  // `bad` tells, of the evaluations of a whole split counted from 0, those whose loss is none.
  HoleyObjective(std::unique_ptr<Objective> task, std::function<bool(int pass)> bad)
      : task_(std::move(task)), bad_(std::move(bad)) {}
  bool accuracy_leads() const override { return false; }
  at::Tensor TrainingLoss(const ModelOutput& output, const Batch& batch) const override {
    return task_->TrainingLoss(output, batch);
  }
  at::Tensor EvaluationLoss(const ModelOutput& output, const Batch& batch) const override {
    const at::Tensor loss = task_->EvaluationLoss(output, batch);
    if (batch.count < kSplit) return loss;
    return bad_(passes_++) ? loss.mul(std::numeric_limits<double>::quiet_NaN()) : loss;
  }
  at::Tensor Correct(const ModelOutput& output, const Batch& batch) const override {
    return task_->Correct(output, batch);
  }

 private:
  static constexpr int64_t kSplit = 10;  // a tenth of SmallRun's samples
  const std::unique_ptr<Objective> task_;
  const std::function<bool(int pass)> bad_;
  mutable int passes_ = 0;
};

TrainingRun HoleyRun(const std::string& root, std::function<bool(int pass)> bad) {
  TrainingRun run = SmallRun(root);
  run.world_size = 1;
  run.recipe.evaluation_batch_size = 100;  // one pass an evaluation
  run.recipe.validate_every_epochs = 0;
  run.recipe.validate_every_steps = 4;
  run.recipe.save_every_epochs = 0;
  run.recipe.save_every_steps = 4;
  run.wrap_objective = [bad](std::unique_ptr<Objective> task) {
    return std::make_unique<HoleyObjective>(std::move(task), bad);
  };
  return run;
}

TEST(Train, AValidationWithoutANumberIsNeverTheBestAndItsCheckpointIsResumedFrom) {
  TempDir root;
  TrainingRun run = HoleyRun(root.path(), [](int pass) { return pass == 0; });
  const RunOutcome whole = RunTraining(run);
  ASSERT_OK(whole.ranks[0].result);
  EXPECT_GE(whole.ranks[0].result->results.at("best_step"), 8) << "that of step 4 gave no number";
  run.candidates = CandidatesUpTo(whole, 4);
  ASSERT_THAT(run.candidates, SizeIs(1));
  run.attempt = 2;
  for (const CheckpointNews& news : whole.committed) {
    if (news.step > 4) std::filesystem::remove_all(news.path);
  }
  run.wrap_objective = [](std::unique_ptr<Objective> task) {
    return std::make_unique<HoleyObjective>(std::move(task), [](int) { return false; });
  };
  const RunOutcome again = RunTraining(run);
  ASSERT_OK(again.ranks[0].result);
  ExpectSameBits(whole, again);
  EXPECT_EQ(whole.ranks[0].result->results, again.ranks[0].result->results);
}

TEST(Train, ARunWhoseValidationsAllGaveNoNumberFailsAtItsEndAndAtEachRestart) {
  TempDir root;
  TrainingRun run = HoleyRun(root.path(), [](int) { return true; });
  const RunOutcome outcome = RunTraining(run);
  EXPECT_EQ(FailureClassOf(outcome.ranks[0].result.status()), kNonFinite);
  EXPECT_THAT(outcome.ranks[0].result.status().message(), HasSubstr("every validation"));
  ASSERT_EQ(outcome.committed.back().step, 12);
  run.candidates = CandidatesUpTo(outcome, 12);
  run.attempt = 2;
  EXPECT_EQ(FailureClassOf(RunTraining(run).ranks[0].result.status()), kNonFinite);
}

TEST(Train, PassesOverAWholeCheckpointWhoseStateCannotBeRead) {
  TempDir root;
  TrainingRun run = SmallRun(root.path());
  run.recipe.save_every_steps = 4;
  const RunOutcome whole = RunTraining(run);
  ASSERT_OK(whole.ranks[0].result);
  for (const CheckpointNews& news : whole.committed) {
    if (news.step > 8) std::filesystem::remove_all(news.path);
  }
  run.candidates = CandidatesUpTo(whole, 8);
  // Its hashes are right, and its state is what no program can read.
  muster::testing::FakePublisher publisher;
  const NamedTensors none;
  auto saver = Saver::Create(PosixFileSystem(), publisher, {root.path(), 1, "test", 1, 1, 77});
  ASSERT_OK(saver);
  (*saver)->Save({.step = 10, .model = &none, .optimizer = &none, .state_json = "{\"step\": "});
  ASSERT_OK((*saver)->Flush(absl::Minutes(1)));
  ASSERT_THAT(publisher.committed(), SizeIs(1));
  const CheckpointNews unreadable = publisher.committed()[0];
  run.candidates.insert(run.candidates.begin(),
                        {unreadable.path, unreadable.step, unreadable.manifest_sha256});
  run.attempt = 2;
  const RunOutcome again = RunTraining(run);
  ASSERT_OK(again.ranks[0].result);
  ASSERT_OK(again.ranks[1].result);
  ExpectSameBits(whole, again);

  for (const CheckpointNews& news : again.committed) std::filesystem::remove_all(news.path);
  run.candidates.resize(1);
  run.attempt = 3;
  EXPECT_EQ(FailureClassOf(RunTraining(run).ranks[0].result.status()), kCorruption)
      << "never from scratch";
}

// The request to the last rank comes while the validation of step 4 runs.
TEST(Train, ARequestToStopEndsAnEvaluationWhichIsMadeUpForAfterwards) {
  TempDir whole_root, broken_root;
  TrainingRun run = SmallRun(whole_root.path());
  run.recipe.evaluation_batch_size = 1;
  run.recipe.validate_every_epochs = 0;
  run.recipe.validate_every_steps = 4;
  run.recipe.save_every_epochs = 0;
  const RunOutcome whole = RunTraining(run);
  ASSERT_OK(whole.ranks[0].result);
  for (const auto& rank : whole.ranks)
    EXPECT_GE(rank.host.beats, 1) << "who looks for hung ranks hears nothing";

  run.root = broken_root.path();
  run.requested = {.stop = true, .save = true};
  run.requested_after_step = 4;
  run.requested_in_evaluation = true;
  const RunOutcome first = RunTraining(run);
  for (const auto& rank : first.ranks) {
    ASSERT_OK(rank.result);
    EXPECT_TRUE(rank.result->stopped);
  }
  ASSERT_THAT(first.committed, SizeIs(1));
  EXPECT_EQ(first.committed[0].step, 4);
  EXPECT_EQ(first.ranks[0].host.metrics.count("validation_loss"), 0u);

  run.requested_after_step = -1;
  run.requested_in_evaluation = false;
  run.attempt = 2;
  run.candidates = CandidatesUpTo(first, 4);
  const RunOutcome second = RunTraining(run);
  ASSERT_OK(second.ranks[0].result);
  ExpectSameBits(whole, second);
  EXPECT_EQ(whole.ranks[0].result->results, second.ranks[0].result->results);
  EXPECT_EQ(whole.ranks[0].host.metrics.at("validation_loss"),
            second.ranks[0].host.metrics.at("validation_loss"));
}

TEST(Train, ARequestToStopInTheLastEvaluationsLosesNothing) {
  TempDir root;
  TrainingRun run = SmallRun(root.path());
  const RunOutcome whole = RunTraining(run);
  ASSERT_OK(whole.ranks[0].result);
  TempDir other_root;
  run.root = other_root.path();
  run.requested = {.stop = true, .save = true};
  run.requested_after_step = 12;
  run.requested_in_evaluation = true;
  std::vector<CheckpointCandidate> candidates;
  for (uint32_t attempt = 1; attempt <= 2; ++attempt) {
    run.attempt = attempt;
    run.candidates = candidates;
    const RunOutcome stopped = RunTraining(run);
    ASSERT_OK(stopped.ranks[0].result);
    EXPECT_TRUE(stopped.ranks[0].result->stopped);
    for (const CheckpointCandidate& candidate : CandidatesUpTo(stopped, 12))
      candidates.insert(candidates.begin(), candidate);
  }
  run.attempt = 3;
  run.candidates = candidates;
  run.requested_in_evaluation = false;
  run.requested_after_step = -1;
  const RunOutcome last = RunTraining(run);
  ASSERT_OK(last.ranks[0].result);
  EXPECT_EQ(whole.ranks[0].result->results, last.ranks[0].result->results);
}

TEST(Train, BatchNormOverTheGangTakesUnequalShares) {
  for (const uint64_t batch_size : {17u, 9u}) {  // shares of 8 and 9, and of 4 and 5
    TempDir root;
    TrainingRun run = SmallRun(root.path());
    run.resnet = true;
    run.sync_batch_norm = true;
    run.batch_size = batch_size;
    const RunOutcome outcome = RunTraining(run);
    for (const auto& rank : outcome.ranks) ASSERT_OK(rank.result);
    ExpectSameBitsOnAllRanks(outcome);
    TempDir alone_root;
    run.root = alone_root.path();
    run.world_size = 1;
    const RunOutcome alone = RunTraining(run);
    ASSERT_OK(alone.ranks[0].result);
    const auto& losses = outcome.ranks[0].host.metrics.at("loss");
    for (const auto& [step, loss] : alone.ranks[0].host.metrics.at("loss"))
      EXPECT_NEAR(losses.at(step), loss, 0.02 * loss) << "step " << step;
  }
}

// The last stage of this network sees one pixel.
TEST(Train, RefusesAtItsStartWhatWouldLeaveBatchNormASingleValue) {
  struct Case {
    int world_size;
    uint64_t batch_size;
    int64_t accumulate;
    bool over_gang;
    bool refused;
  };
  for (const Case& c :
       {Case{1, 1, 1, false, true}, Case{2, 2, 1, false, true}, Case{2, 2, 1, true, false},
        Case{1, 5, 4, false, true}, Case{1, 8, 4, false, false}}) {
    TempDir root;
    TrainingRun run = SmallRun(root.path());
    run.resnet = true;
    run.world_size = c.world_size;
    run.batch_size = c.batch_size;
    run.recipe.accumulate = c.accumulate;
    run.sync_batch_norm = c.over_gang;
    const RunOutcome outcome = RunTraining(run);
    for (const auto& rank : outcome.ranks) {
      if (!c.refused) {
        EXPECT_OK(rank.result) << c.batch_size;
        continue;
      }
      EXPECT_THAT(rank.result, StatusIs(absl::StatusCode::kInvalidArgument,
                                        HasSubstr("a single value has no variance")))
          << c.batch_size << " in " << c.accumulate;
      EXPECT_EQ(FailureClassOf(rank.result.status()), kStartFailed);
    }
  }
}

TEST(Train, NeverStartsFromScratchWhenNoCandidateIsGood) {
  TempDir root;
  TrainingRun run = SmallRun(root.path());
  run.candidates = {{root / "step-8.a1.g1", 8, ""}, {root / "step-4.a1.g1", 4, ""}};
  run.attempt = 2;
  const RunOutcome outcome = RunTraining(run);
  for (const auto& rank : outcome.ranks) {
    EXPECT_THAT(rank.result, StatusIs(absl::StatusCode::kNotFound,
                                      HasSubstr("no checkpoint to resume from can be read")));
    EXPECT_EQ(FailureClassOf(rank.result.status()), kCheckpointFailed);
  }
  // What is not there for this machine may be there for another.
  EXPECT_THAT(outcome.ranks[0].host.corrupt, IsEmpty());
  EXPECT_THAT(outcome.ranks[0].host.unread,
              ElementsAre(root / "step-8.a1.g1", root / "step-4.a1.g1"));
}

TEST(Train, ARootThatIsNotSeenIsNoVerdictOnWhatIsInIt) {
  TempDir root;
  TrainingRun run = SmallRun(root / "job-1");
  ASSERT_OK(ClaimRoot(PosixFileSystem(), {root.path(), "abc1"}, {}, "test"));
  run.holder = {.path = root.path(), .identity = "abc1"};
  run.recipe.save_every_steps = 4;
  const RunOutcome whole = RunTraining(run);
  ASSERT_OK(whole.ranks[0].result);
  run.candidates = CandidatesUpTo(whole, 11);
  run.attempt = 2;
  // Another folder is mounted there, or none.
  std::filesystem::rename(root / "job-1", root / "away");
  std::filesystem::remove(root / kRootMarker);
  const RunOutcome outcome = RunTraining(run);
  for (const auto& rank : outcome.ranks) {
    EXPECT_THAT(rank.result, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("is it mounted?")));
    EXPECT_EQ(FailureClassOf(rank.result.status()), kStorageUnavailable);
  }
  EXPECT_THAT(outcome.ranks[0].host.corrupt, IsEmpty());
  EXPECT_THAT(outcome.ranks[0].host.unread, IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(root / "job-1")) << "nothing is made in what is there";
}

TEST(Train, RefusesToResumeOnOtherData) {
  TempDir root;
  TrainingRun run = SmallRun(root.path());
  run.recipe.save_every_steps = 4;
  const RunOutcome first = RunTraining(run);
  ASSERT_OK(first.ranks[0].result);
  run.candidates = CandidatesUpTo(first, 11);
  run.attempt = 2;
  run.samples = 104;
  std::filesystem::remove_all(first.committed.back().path);
  const RunOutcome second = RunTraining(run);
  EXPECT_THAT(second.ranks[0].result,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("data changed")));
  EXPECT_EQ(FailureClassOf(second.ranks[0].result.status()), kDataError);
}

}  // namespace
}  // namespace muster::worker
