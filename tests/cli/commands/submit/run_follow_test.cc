// With which code `muster run` ends. The rest of it is tested against real daemons.
#include "cli/commands/submit/run_follow.h"

#include <gtest/gtest.h>

namespace muster::cli {
namespace {

v1::GetJobResponse Failed(v1::FailureClass cause) {
  v1::GetJobResponse job;
  job.mutable_summary()->set_state(v1::FAILED);
  job.mutable_summary()->set_failure_class(cause);
  job.mutable_summary()->set_reason(v1::RESTART_BUDGET_SPENT);
  job.add_attempts();
  return job;
}

void AddRank(v1::GetJobResponse& job, int exit_code, int signal) {
  auto* rank = job.mutable_attempts(job.attempts_size() - 1)->add_ranks();
  rank->set_exit_code(exit_code);
  rank->set_signal(signal);
}

TEST(ProgramExitCode, IsThatOfTheRankThatFailed) {
  v1::GetJobResponse job = Failed(v1::APPLICATION);
  AddRank(job, 0, 9);
  AddRank(job, 3, 0);
  EXPECT_EQ(ProgramExitCode(job), 3);
}

TEST(ProgramExitCode, ASignalIsCountedAsShellsDo) {
  v1::GetJobResponse job = Failed(v1::RANK_KILLED);
  AddRank(job, 0, 9);
  AddRank(job, 0, 11);
  EXPECT_EQ(ProgramExitCode(job), 128 + 11) << "the other was killed because of it";
  v1::GetJobResponse killed = Failed(v1::RANK_KILLED);
  AddRank(killed, 0, 9);
  EXPECT_EQ(ProgramExitCode(killed), 128 + 9);
}

TEST(ProgramExitCode, IsOursWhereTheProgramDidNotDecide) {
  v1::GetJobResponse job = Failed(v1::WORKER_LOST);
  AddRank(job, 0, 9);
  EXPECT_EQ(ProgramExitCode(job), 12);
  EXPECT_EQ(ProgramExitCode(Failed(v1::START_FAILED)), 10) << "no budget was lost on it";
  job.mutable_summary()->set_state(v1::CANCELLED);
  EXPECT_EQ(ProgramExitCode(job), 11);
  job.mutable_summary()->set_state(v1::SUCCEEDED);
  EXPECT_EQ(ProgramExitCode(job), 0);
  EXPECT_EQ(ProgramExitCode(Failed(v1::APPLICATION)), 12) << "no rank says anything";
}

}  // namespace
}  // namespace muster::cli
