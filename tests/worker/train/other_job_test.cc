// A run that goes on from what another job saved (checkpoint.resume_from).
#include <atomic>
#include <filesystem>

#include "absl/time/clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/train/training_run.h"
#include "worker/models/mlp.h"
#include "worker/train/run/failure.h"
#include "worker/train/run/run_state.h"

namespace muster::worker {
namespace {

using muster::testing::RunOutcome;
using muster::testing::RunTraining;
using muster::testing::StatusIs;
using muster::testing::TempDir;
using muster::testing::TrainingRun;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class OtherJob : public ::testing::Test {
 protected:
  OtherJob() {
    run_.world_size = 2;
    run_.root = first_root_.path();
    run_.recipe.total_steps = 12;
    run_.recipe.schedule = {ScheduleName::kCosine, 0.01, 3, 0.1, 12};
    run_.recipe.report_every_steps = 1;
    run_.recipe.validate_every_epochs = 0;
    run_.recipe.save_every_epochs = 0;
    run_.recipe.save_every_steps = 4;
    run_.recipe.evaluation_batch_size = 3;
    run_.recipe.commit_timeout = absl::Minutes(1);
    first_ = RunTraining(run_);
    // From here on it is the second job.
    run_.root = second_root_.path();
  }

  // Offers what the first job saved at these steps, as the controller would.
  void OfferFirst(std::initializer_list<int64_t> steps) {
    for (const int64_t step : steps) {
      for (const CheckpointNews& news : first_.committed) {
        if (news.step != step) continue;
        run_.candidates.push_back(
            {news.path, step, news.manifest_sha256, /*job_id=*/1, /*job_name=*/"test"});
      }
    }
  }

  TempDir first_root_, second_root_;
  TrainingRun run_;
  RunOutcome first_;
};

TEST_F(OtherJob, GoesOnWithItsWeightsItsOptimizerAndItsSteps) {
  ASSERT_OK(first_.ranks[0].result);
  OfferFirst({8, 4});
  ASSERT_EQ(run_.candidates.size(), 2u);
  const RunOutcome second = RunTraining(run_);
  ASSERT_OK(second.ranks[0].result);
  // With the same recipe it is the very run that the first one was.
  for (const auto& [name, tensor] : first_.ranks[0].weights) {
    EXPECT_TRUE(tensor.equal(second.ranks[0].weights.at(name))) << name;
  }
  EXPECT_EQ(second.ranks[0].host.metrics.at("loss").begin()->first, 9);
  ASSERT_EQ(second.committed.size(), 1u);
  EXPECT_EQ(second.committed[0].step, 12);
  EXPECT_THAT(second.committed[0].path, HasSubstr(second_root_.path()));
}

TEST_F(OtherJob, TheNextOneIsTakenWhenTheNewestIsGone) {
  OfferFirst({8, 4});
  const std::string gone = run_.candidates[0].path;
  std::filesystem::remove_all(gone);
  const RunOutcome second = RunTraining(run_);
  ASSERT_OK(second.ranks[0].result);
  EXPECT_THAT(second.ranks[0].host.unread, ElementsAre(gone));
  EXPECT_EQ(second.ranks[0].host.metrics.at("loss").begin()->first, 5);
}

TEST_F(OtherJob, WithAllOfThemGoneItDoesNotStartFromScratch) {
  OfferFirst({8, 4});
  for (const auto& candidate : run_.candidates) std::filesystem::remove_all(candidate.path);
  const RunOutcome second = RunTraining(run_);
  for (const auto& rank : second.ranks) {
    EXPECT_THAT(rank.result, StatusIs(absl::StatusCode::kNotFound,
                                      HasSubstr("no checkpoint to resume from can be read")));
    EXPECT_EQ(FailureClassOf(rank.result.status()), kCheckpointFailed);
  }
}

TEST_F(OtherJob, OtherDataIsNoHindranceAndItsBestDoesNotCount) {
  OfferFirst({12});
  run_.samples = 104;
  run_.recipe.total_steps = 16;
  run_.recipe.schedule.peak = 0;  // nothing is learned any more
  const RunOutcome second = RunTraining(run_);
  ASSERT_OK(second.ranks[0].result);
  EXPECT_EQ(second.ranks[0].result->results.at("best_step"), 16)
      << "12 was the other job's best, and is not this one's to load";
}

TEST_F(OtherJob, AnotherNetworkIsAnErrorThatNamesBothJobs) {
  OfferFirst({8, 4});
  run_.make_model = [](const ModelContext& context) { return MakeMlp({{7}}, context); };
  const RunOutcome second = RunTraining(run_);
  for (const auto& rank : second.ranks) {
    EXPECT_THAT(rank.result,
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("job 1 (test) cannot go on from the checkpoint of job 1 "
                                         "(test) of step 8, "),
                               HasSubstr("does not fit the model"))));
    EXPECT_EQ(FailureClassOf(rank.result.status()), kDataError);
  }
  EXPECT_THAT(second.ranks[0].host.corrupt, IsEmpty()) << "it is whole";
}

TEST_F(OtherJob, AnotherOptimizerIsAnErrorToo) {
  OfferFirst({8});
  run_.adamw = false;
  EXPECT_THAT(RunTraining(run_).ranks[0].result,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("cannot go on from"), HasSubstr("optimizer.safetensors"))));
}

TEST_F(OtherJob, ACheckpointOfItsEndOrBeyondLeavesNothingToTrain) {
  OfferFirst({12});
  const RunOutcome second = RunTraining(run_);
  EXPECT_THAT(second.ranks[1].result,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("is of step 12, and it ends after 12: ask for more")));
  EXPECT_EQ(FailureClassOf(second.ranks[1].result.status()), kDataError);
}

TEST_F(OtherJob, ItsOwnCheckpointsComeFirst) {
  OfferFirst({4});
  ASSERT_OK(RunTraining(run_).ranks[0].result);
  // A restart: what the second job saved at 8 by itself, though the first job's 12 is offered too.
  run_.attempt = 2;
  run_.candidates.clear();
  OfferFirst({12});
  const std::string own = second_root_ / "step-8.a1.g1";
  std::filesystem::remove_all(second_root_ / "step-12.a1.g1");
  ASSERT_TRUE(std::filesystem::exists(own));
  const RunOutcome again = RunTraining(run_);
  ASSERT_OK(again.ranks[0].result);
  EXPECT_EQ(again.ranks[0].host.metrics.at("loss").begin()->first, 9);
  ASSERT_FALSE(again.committed.empty());
  EXPECT_EQ(again.committed[0].path, own) << "it was whole, and is registered";
}

// The controller may have no room on its disk for minutes.
TEST_F(OtherJob, WhoWaitsForACheckpointToBeRegisteredLooksAlive) {
  OfferFirst({4});
  ASSERT_OK(RunTraining(run_).ranks[0].result);
  run_.attempt = 2;
  std::filesystem::remove_all(second_root_ / "step-12.a1.g1");
  std::atomic<int> beats = 0;
  run_.on_beat = [&beats](int, const std::string&) { ++beats; };
  run_.before_commit = [&beats] {
    for (int i = 0; i < 6000 && beats == 0; ++i) absl::SleepFor(absl::Milliseconds(10));
    EXPECT_GT(beats, 0) << "who looks for hung ranks hears nothing";
  };
  const RunOutcome again = RunTraining(run_);
  ASSERT_OK(again.ranks[0].result);
  ASSERT_FALSE(again.committed.empty());
  EXPECT_EQ(again.committed[0].path, second_root_ / "step-8.a1.g1");
}

TEST(ChangedRecipe, NamesWhatOfTrainDiffers) {
  EXPECT_THAT(ChangedRecipe(R"({"name":"a","train":{"seed":1,"steps":5,"ema":{"decay":1}}})",
                            R"({"name":"b","train":{"seed":1,"steps":6,"prune":{}}})"),
              ElementsAre("train.ema", "train.steps", "train.prune"));
  EXPECT_THAT(ChangedRecipe("", "{}"), IsEmpty());
  EXPECT_THAT(ChangedRecipe("[1", R"({"train":{"seed":1}})"), ElementsAre("train.seed"));
}

}  // namespace
}  // namespace muster::worker
