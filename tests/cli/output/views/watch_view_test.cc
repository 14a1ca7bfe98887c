#include "cli/output/views/watch_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/output/text.h"

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

v1::JobSummary Running(int64_t step) {
  v1::JobSummary job;
  job.set_id(7);
  job.set_name("digits");
  job.set_state(v1::RUNNING);
  job.set_phase("train");
  job.set_ranks(2);
  job.set_attempt(1);
  job.set_step(step);
  job.set_total_steps(1000);
  job.set_epoch(9);
  job.set_loss(0.25);
  job.set_samples_per_second(812);
  job.set_lr(0.001);
  job.set_memory_bytes(300 << 20);
  job.set_memory_peak_bytes(400 << 20);
  job.set_validation_accuracy(0.95);
  job.set_best_validation_accuracy(0.96);
  job.add_workers("worker-1");
  job.add_workers("worker-2");
  return job;
}

TEST(WatchBlock, ShowsProgressLossSpeedMemoryAccuracyAndEta) {
  WatchHistory history;
  history.AddLoss(100, 1.0);
  history.Observe(absl::Seconds(10), Running(400));
  history.Observe(absl::Seconds(20), Running(500));
  EXPECT_THAT(
      WatchBlock(Running(500), history, 100, false),
      ElementsAre(
          "job 7 digits  RUNNING  train  2 ranks on worker-1, worker-2",
          "[####################                    ]  50%  step 500/1000  epoch 9.000  eta 50s",
          "loss 0.2500  #__", "812.0 samples/s  lr 0.0010  memory 300 MiB (peak 400 MiB)",
          "validation 95.0%  best 96.0%"));
}

TEST(WatchBlock, FitsTheTerminalAndSaysWhyAJobWaits) {
  v1::JobSummary job;
  job.set_id(8);
  job.set_name("big");
  job.set_state(v1::PENDING);
  job.set_message("waits for 4 slots: 2 are free");
  const auto lines = WatchBlock(job, WatchHistory(), 20, true);
  EXPECT_THAT(lines, ElementsAre("job 8 big  PENDING", "waits for 4 slots: ~", "", "", ""));
}

TEST(WatchLine, TellsTheSameOnOneLine) {
  WatchHistory history;
  history.Observe(absl::Seconds(10), Running(400));
  history.Observe(absl::Seconds(20), Running(500));
  EXPECT_EQ(
      WatchLine(Running(500), history),
      "job 7 digits  train  500/1000 50%  loss 0.2500  812.0/s  300 MiB  best 96.0%  eta 50s");
  v1::JobSummary waiting;
  waiting.set_id(8);
  waiting.set_name("big");
  waiting.set_state(v1::PENDING);
  waiting.set_message("waits for 4 slots");
  EXPECT_EQ(WatchLine(waiting, WatchHistory()), "job 8 big  PENDING  waits for 4 slots");
}

TEST(WatchHistory, HasNoEtaBeforeItSawStepsNorAfterTheEnd) {
  WatchHistory history;
  EXPECT_EQ(history.Eta(Running(0)), std::nullopt);
  history.Observe(absl::Seconds(0), Running(0));
  EXPECT_EQ(history.Eta(Running(0)), std::nullopt);
  history.Observe(absl::Seconds(1), Running(10));
  EXPECT_EQ(history.Eta(Running(10)), std::nullopt);
  history.Observe(absl::Seconds(2), Running(10));
  EXPECT_EQ(history.Eta(Running(10)), std::nullopt) << "it stands still";
  history.Observe(absl::Seconds(3), Running(20));
  EXPECT_NE(history.Eta(Running(20)), std::nullopt);
  v1::JobSummary done = Running(20);
  done.set_state(v1::CANCELLED);
  EXPECT_EQ(history.Eta(done), std::nullopt);
}

TEST(WatchHistory, ARestartStartsThePaceAnewAndReplacesTheCurve) {
  WatchHistory history;
  for (int step = 10; step <= 50; step += 10) {
    v1::JobSummary job = Running(step);
    job.set_loss(step);
    history.Observe(absl::Seconds(step), job);
  }
  v1::JobSummary again = Running(30);
  again.set_attempt(2);
  again.set_loss(99);
  history.Observe(absl::Seconds(60), again);
  EXPECT_EQ(history.Eta(again), std::nullopt);
  EXPECT_THAT(history.losses(), ElementsAre(10, 20, 99));
}

TEST(WatchHistory, ForgetsOldPaceAndThinsALongCurve) {
  WatchHistory history;
  for (int i = 1; i <= 10'000; ++i) {
    v1::JobSummary job = Running(i);
    job.set_total_steps(20'000);
    history.Observe(absl::Seconds(i), job);
  }
  v1::JobSummary last = Running(10'000);
  last.set_total_steps(20'000);
  ASSERT_NE(history.Eta(last), std::nullopt);
  EXPECT_NEAR(absl::ToDoubleSeconds(*history.Eta(last)), 10'000, 1);
  EXPECT_LE(history.losses().size(), 4096u);
}

TEST(Outcome, OneSentenceOnHowItEnded) {
  v1::JobSummary job = Running(1000);
  job.set_state(v1::SUCCEEDED);
  job.set_test_accuracy(0.981);
  job.set_started_ms(1000);
  job.set_finished_ms(62'000);
  job.set_message("all ranks succeeded");
  EXPECT_EQ(OutcomeText(job), "job 7 digits: SUCCEEDED, test accuracy 98.1% after 1m1s");
  job.set_state(v1::FAILED);
  job.set_restarts(5);
  job.set_message("rank 1 ran out of memory");
  EXPECT_EQ(OutcomeText(job),
            "job 7 digits: FAILED after 1m1s, restarts: 5: rank 1 ran out of memory");
}

}  // namespace
}  // namespace muster::cli
