#include "controller/web/checkpoint_age.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "common/spec/packed_spec.h"
#include "tests/controller/api/fake_engine.h"

namespace muster::controller {
namespace {

class CheckpointAgeTest : public ::testing::Test {
 protected:
  CheckpointAgeTest() {
    job_.id = 7;
    job_.state = JobState::kRunning;
    job_.attempt = 1;
    Attempt attempt;
    attempt.number = 1;
    attempt.held_from = now_ - absl::Seconds(100);
    job_.current = std::make_shared<const Attempt>(attempt);
    job_.progress.step = 130;
    job_.progress.epoch = 2.5;
  }

  void Settle(const v1::JobSpec& spec) {
    JobSettings settings;
    settings.name = "digits";
    settings.spec = PackSpec(spec);
    job_.settings = std::make_shared<const JobSettings>(settings);
  }
  static v1::JobSpec Training(uint64_t every_steps, uint32_t every_epochs, int64_t every_seconds) {
    v1::JobSpec spec;
    spec.mutable_train();
    spec.mutable_checkpoint()->set_every_steps(every_steps);
    spec.mutable_checkpoint()->set_every_epochs(every_epochs);
    spec.mutable_checkpoint()->mutable_every()->set_seconds(every_seconds);
    return spec;
  }
  std::shared_ptr<Checkpoint> CheckpointAt(int64_t step, double epoch, absl::Duration ago) const {
    auto checkpoint = std::make_shared<Checkpoint>();
    checkpoint->state = CheckpointState::kCommitted;
    checkpoint->path = "/ckpt/job-7/step";
    checkpoint->step = step;
    checkpoint->epoch = epoch;
    checkpoint->created_at = now_ - ago;
    return checkpoint;
  }
  std::optional<double> Ratio() {
    return CheckpointAgeRatio(snapshot_, job_, rules_.Of(job_), now_);
  }

  const absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
  Snapshot snapshot_;
  Job job_;
  CheckpointRules rules_;
};

TEST_F(CheckpointAgeTest, TheAgeIsTheLargestShareOfWhatMayPass) {
  job_.checkpoints = {1, 2};
  snapshot_.checkpoints.Put(1, CheckpointAt(100, 2, absl::Seconds(40)));
  auto unfinished = CheckpointAt(130, 2.5, absl::Seconds(1));
  unfinished->state = CheckpointState::kWriting;  // not one to go back to
  snapshot_.checkpoints.Put(2, unfinished);
  const struct {
    v1::JobSpec spec;
    double ratio;
  } cases[] = {{Training(20, 0, 0), 1.5},
               {Training(0, 2, 0), 0.25},
               {Training(0, 0, 10), 4},
               {Training(20, 2, 1000), 1.5}};
  for (const auto& c : cases) {
    Settle(c.spec);
    EXPECT_EQ(Ratio(), c.ratio) << c.spec.DebugString();
  }
}

TEST_F(CheckpointAgeTest, BeforeTheFirstCheckpointItCountsFromTheBeginning) {
  Settle(Training(100, 0, 0));
  EXPECT_EQ(Ratio(), 1.3);
  Settle(Training(0, 0, 50));
  EXPECT_EQ(Ratio(), 2);
}

TEST_F(CheckpointAgeTest, WhoWaitsOrSavesByNoRuleHasNone) {
  Settle(Training(0, 0, 0));
  EXPECT_EQ(Ratio(), std::nullopt);
  v1::JobSpec command = Training(20, 0, 0);
  command.clear_train();
  Settle(command);
  EXPECT_EQ(Ratio(), std::nullopt);
  Settle(Training(20, 0, 0));
  EXPECT_NE(Ratio(), std::nullopt);
  job_.state = JobState::kPending;
  EXPECT_EQ(Ratio(), std::nullopt);
}

}  // namespace
}  // namespace muster::controller
