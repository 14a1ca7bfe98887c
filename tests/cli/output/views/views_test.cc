#include "cli/output/views/views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_split.h"
#include "cli/output/text.h"

namespace muster::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kViewsNow = absl::FromUnixMillis(1'700'000'100'000);

v1::JobSummary Job() {
  v1::JobSummary job;
  job.set_id(7);
  job.set_name("digits");
  job.set_project("default");
  job.set_owner("ada");
  job.set_state(v1::RUNNING);
  job.set_message("makes progress");
  job.set_ranks(2);
  job.set_step(450);
  job.set_total_steps(1000);
  job.set_loss(0.031);
  job.set_samples_per_second(812);
  job.set_goodput(0.9312);
  job.set_submitted_ms(1'700'000'000'000);
  job.set_started_ms(1'700'000'040'000);
  job.add_workers("worker-1");
  job.add_workers("worker-2");
  return job;
}

TEST(JobTable, FitsALine) {
  EXPECT_EQ(
      JobTable({Job()}, kViewsNow, false).Render(true),
      "ID  NAME    STATE    RANKS      STEP    LOSS     RATE  GOODPUT    AGE  REASON\n"
      " 7  digits  RUNNING      2  450/1000  0.0310  812.0/s    93.1%  1m40s  makes progress\n");
}

TEST(JobTable, WideAddsWhoAndWhere) {
  EXPECT_EQ(
      JobTable({Job()}, kViewsNow, true).Render(false, 1000),
      "7  digits  RUNNING  2  450/1000  0.0310  812.0/s  93.1%  1m40s  default  ada  0  0  -  "
      "worker-1,worker-2  makes progress\n");
}

TEST(JobTable, ALongMessageIsCutAt100Columns) {
  v1::JobSummary job = Job();
  job.set_message(std::string(300, 'm'));
  for (const absl::string_view line :
       absl::StrSplit(JobTable({job}, kViewsNow, false).Render(true), '\n')) {
    EXPECT_LE(DisplayWidth(line), 100u);
  }
}

TEST(JobPage, TellsAll) {
  v1::GetJobResponse job;
  *job.mutable_summary() = Job();
  v1::Attempt& attempt = *job.add_attempts();
  attempt.set_number(1);
  attempt.set_started_ms(1'700'000'010'000);
  attempt.set_ended_ms(1'700'000'050'000);
  attempt.set_failure_class(v1::RANK_KILLED);
  attempt.set_cause("rank 1 was killed by signal 9");
  attempt.set_last_step(120);
  attempt.set_steps_lost(20);
  v1::Attempt& live = *job.add_attempts();
  live.set_number(2);
  live.set_started_ms(1'700'000'051'000);
  live.set_first_step(100);
  live.set_last_step(450);
  v1::Attempt::Rank& rank = *live.add_ranks();
  rank.set_worker("worker-1");
  rank.add_slots(0);
  rank.set_state("running");
  rank.set_pid(4711);
  v1::CheckpointInfo& checkpoint = *job.add_checkpoints();
  checkpoint.set_id(3);
  checkpoint.set_step(100);
  checkpoint.set_state(v1::VERIFIED);
  checkpoint.set_best(true);
  checkpoint.set_bytes(3 << 20);
  checkpoint.set_validation_accuracy(0.95);
  checkpoint.set_created_ms(1'700'000'045'000);
  v1::JobEvent& event = *job.add_events();
  event.set_time_ms(1'700'000'000'000);
  event.set_to(v1::PENDING);
  event.set_reason(v1::SUBMITTED);
  event.set_actor("user:ada");
  EXPECT_EQ(JobPage(job, {"spec", "name: digits\n", ""}, kViewsNow),
            "job:          7 digits\n"
            "state:        RUNNING\n"
            "reason:       makes progress\n"
            "project:      default\n"
            "owner:        ada\n"
            "submitted:    2023-11-14 22:13:20 UTC, 1m40s ago\n"
            "runs for:     1m\n"
            "ranks:        2 on worker-1, worker-2\n"
            "restarts:     0\n"
            "step:         450/1000\n"
            "loss:         0.0310\n"
            "samples/s:    812.0\n"
            "\n"
            "attempts\n"
            "  ATTEMPT  STARTED              LASTED     STEPS  LOST  END          CAUSE\n"
            "        1  2023-11-14 22:13:30     40s    0..120    20  RANK_KILLED  rank 1 was "
            "killed by signal 9\n"
            "        2  2023-11-14 22:14:11       -  100..450     0  live         -\n"
            "\n"
            "ranks of attempt 2\n"
            "  RANK  WORKER    SLOT  STATE     PID  EXIT\n"
            "     0  worker-1     0  running  4711  -\n"
            "\n"
            "checkpoints\n"
            "  ID  STEP  EPOCH  STATE     BEST     SIZE  VALIDATION  AGE  NOTE\n"
            "   3   100      0  VERIFIED  best  3.0 MiB       95.0%  55s  -\n"
            "\n"
            "events\n"
            "  TIME (UTC)           STATE    REASON     BY        MESSAGE\n"
            "  2023-11-14 22:13:20  PENDING  SUBMITTED  user:ada  -\n"
            "\n"
            "spec\n"
            "  name: digits\n");
}

TEST(JobPage, SaysHowOftenItIsStillTriedAgain) {
  v1::GetJobResponse job;
  *job.mutable_summary() = Job();
  const auto budget = [&job](v1::FailureClass kind, uint32_t all, uint32_t left, bool shared) {
    v1::RestartBudget& row = *job.add_budgets();
    row.set_failure_class(kind);
    row.set_budget(all);
    row.set_left(left);
    row.set_shared(shared);
  };
  budget(v1::WORKER_LOST, 3, 2, true);
  budget(v1::OUT_OF_MEMORY, 0, 0, false);
  budget(v1::APPLICATION, 5, 4, false);
  budget(v1::HANG, 3, 2, true);
  EXPECT_THAT(JobPage(job, {}, kViewsNow),
              HasSubstr("restarts left: 2 of 3; OUT_OF_MEMORY 0, APPLICATION 4 of 5\n"));
  job.mutable_summary()->set_state(v1::SUCCEEDED);
  EXPECT_THAT(JobPage(job, {}, kViewsNow), Not(HasSubstr("restarts left")));
}

TEST(JobPage, ValidationIsALossWhereThereIsNoAccuracy) {
  v1::GetJobResponse job;
  *job.mutable_summary() = Job();
  job.mutable_summary()->set_validation_loss(2.25);
  v1::CheckpointInfo& checkpoint = *job.add_checkpoints();
  checkpoint.set_validation_loss(2.5);
  std::string page = JobPage(job, {}, kViewsNow);
  EXPECT_THAT(page, HasSubstr("validation:   loss 2.250\n"));
  EXPECT_THAT(page, HasSubstr("  loss 2.500  "));
  job.mutable_summary()->set_validation_accuracy(0.5);
  checkpoint.set_validation_accuracy(0.25);
  page = JobPage(job, {}, kViewsNow);
  EXPECT_THAT(page, HasSubstr("validation:   50.0%\n"));
  EXPECT_THAT(page, Not(HasSubstr("loss 2.")));
}

TEST(CheckpointTable, ValidationIsALossWhereThereIsNoAccuracy) {
  v1::CheckpointInfo checkpoint;
  checkpoint.set_validation_loss(2.5);
  EXPECT_THAT(CheckpointTable({checkpoint}, kViewsNow, false).Render(true),
              HasSubstr("  loss 2.500  "));
  checkpoint.set_validation_accuracy(0.25);
  EXPECT_THAT(CheckpointTable({checkpoint}, kViewsNow, false).Render(true), HasSubstr("  25.0%  "));
}

TEST(JobPage, SaysWhatItBeganFrom) {
  v1::GetJobResponse job;
  *job.mutable_summary() = Job();
  v1::ResumeSource& source = *job.mutable_resume_from();
  source.set_job_id(3);
  source.set_job_name("first");
  source.add_steps(500);
  EXPECT_THAT(JobPage(job, {}, kViewsNow), HasSubstr("began from:   job 3 (first), step 500\n"));
  source.add_steps(400);
  source.add_steps(300);
  EXPECT_EQ(ResumeSourceText(source), "job 3 (first), step 500, else 400, 300");
}

TEST(CheckpointPage, NamesWhereItLies) {
  v1::CheckpointInfo checkpoint;
  checkpoint.set_id(3);
  checkpoint.set_job_id(7);
  checkpoint.set_state(v1::CORRUPT);
  checkpoint.set_message("model.safetensors: hash differs");
  checkpoint.set_path("/data/7/step-100.a1.g1");
  const std::string page = CheckpointPage(checkpoint, kViewsNow);
  EXPECT_THAT(page,
              HasSubstr("state:        CORRUPT\nnote:         model.safetensors: hash differs\n"));
  EXPECT_THAT(page, HasSubstr("path:         /data/7/step-100.a1.g1\n"));
}

TEST(WorkerTable, ShowsWhatIsUsed) {
  v1::WorkerInfo worker;
  worker.set_name("worker-1");
  worker.set_state("ready");
  worker.set_pool("default");
  worker.add_slots()->set_device("cpu");
  worker.add_slots()->set_device("cpu");
  worker.set_slots_used(1);
  worker.set_cpus(2);
  worker.set_memory_bytes(8ull << 30);
  worker.set_last_heartbeat_ms(1'700'000'098'000);
  worker.add_job_ids(7);
  EXPECT_EQ(WorkerTable({worker}, kViewsNow, false).Render(true),
            "NAME      STATE  POOL     USED  DEVICE  CPUS   MEMORY  SEEN  JOBS\n"
            "worker-1  ready  default   1/2  cpu        2  8.0 GiB    2s  7\n");
}

TEST(WorkerTable, SaysWhatStandsAgainstAWorker) {
  v1::WorkerInfo worker;
  worker.set_name("w");
  v1::WorkerInfo::WorkerFailure* failure = worker.add_failures();
  failure->set_time_ms(1'700'000'040'000);
  failure->set_job_id(7);
  failure->set_cause("rank 0 on w: bus error");
  EXPECT_THAT(WorkerTable({worker}, kViewsNow, false).Render(true, 200),
              HasSubstr("1 failure began here, the last 1m ago: job 7, rank 0 on w: bus error"));
  v1::WorkerInfo::UnseenRoot* root = worker.add_unseen_roots();
  root->set_path("/shared");
  root->set_message("checkpoint root /shared: its marker is not there: is it mounted?");
  EXPECT_THAT(WorkerTable({worker}, kViewsNow, false).Render(true, 200),
              HasSubstr("checkpoint root /shared: its marker is not there: is it mounted?"));
  worker.clear_unseen_roots();
  worker.set_quarantine_reason("not quarantined, since it is the only worker of pool default: 3");
  EXPECT_THAT(WorkerTable({worker}, kViewsNow, false).Render(true, 200),
              HasSubstr("not quarantined, since it is the only worker of pool default"));
  worker.set_quarantined_until_ms(1'700'000'600'000);
  worker.set_quarantine_reason("3 failures within 1h of 2 jobs");
  EXPECT_THAT(WorkerTable({worker}, kViewsNow, false).Render(true, 200),
              HasSubstr("quarantined until 2023-11-14 22:23:20 UTC: 3 failures within 1h of 2"));
}

}  // namespace
}  // namespace muster::cli
