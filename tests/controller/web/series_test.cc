#include "controller/web/series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/metrics/metric_names.h"
#include "controller/model/draft.h"
#include "tests/controller/api/fake_engine.h"
#include "tests/support/temp_dir.h"

namespace muster::controller {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class SeriesTest : public ::testing::Test {
 protected:
  SeriesTest() {
    inputs_.now = absl::FromUnixSeconds(1'700'000'000);
    inputs_.series_grace = absl::Seconds(60);
    inputs_.started = inputs_.now - absl::Hours(1);
    inputs_.ingest.points = 17;
    inputs_.ingest.refused_points = 4;
    inputs_.ingest.dropped_points = 5;
    inputs_.ingest.dropped_log_bytes = 6;
    inputs_.engine.commits = 3;
    inputs_.database_bytes = {{"state", 100}};
    inputs_.resident_bytes = 1 << 20;
  }
  std::string Render() {
    const prometheus::TextSerializer text;
    const auto series = CollectSeries(*engine_.snapshot(), inputs_, families_);
    return text.Serialize(series) + text.Serialize(families_.Collect());
  }
  void Put(std::shared_ptr<Job> job) {
    engine_.Publish([&](Snapshot& s) { s.jobs.Put(job->id, job); });
  }

  FakeEngine engine_;
  SeriesInputs inputs_;
  MetricFamilies families_{metric::kControllerDroppedTotal};
};

std::shared_ptr<Job> TrainingJob(uint64_t id) {
  auto job = MakeJob(id, "digits");
  job->restarts = 2;
  job->progress.step = 40;
  job->progress.total_steps = 100;
  job->progress.memory_bytes = 5000;
  job->progress.memory_peak_bytes = 6000;
  job->progress.latest = {{"loss", 0.25},
                          {"lr", 0.01},
                          {"samples_per_second", 1234},
                          {"step_seconds", 0.5},
                          {"data_seconds", 0.125},
                          {"validation_accuracy", 0.75},
                          {"memory_bytes", 4000},
                          {"validation_perplexity", 7.5},
                          {"reward", 1}};
  job->checkpoints = {1, 2, 3};
  return job;
}

TEST_F(SeriesTest, TheEndOfTheCertificateIsShownWhereThereIsOne) {
  EXPECT_THAT(Render(), Not(HasSubstr("muster_controller_certificate_expiry_time_seconds")));
  inputs_.certificate_end = absl::FromUnixSeconds(1'700'001'000);
  EXPECT_THAT(Render(),
              HasSubstr("muster_controller_certificate_expiry_time_seconds 1700001000\n"));
}

TEST_F(SeriesTest, ARunningJobShowsWhatItReported) {
  Put(TrainingJob(7));
  engine_.Publish([](Snapshot& s) {
    auto committed = std::make_shared<Checkpoint>();
    committed->state = CheckpointState::kDeleted;  // by now
    committed->path = "/ckpt/job-7/step-1";
    s.checkpoints.Put(1, committed);
    s.checkpoints.Put(2, std::make_shared<Checkpoint>());  // WRITING
    auto failed = std::make_shared<Checkpoint>();
    failed->state = CheckpointState::kDeleted;
    s.checkpoints.Put(3, failed);
  });
  const std::string text = Render();
  const std::string job = "{job_id=\"7\",job_name=\"digits\"";
  for (const std::string& line : {"muster_job_loss" + job + "} 0.25",
                                  "muster_job_learning_rate" + job + "} 0.01",
                                  "muster_job_samples_per_second" + job + "} 1234",
                                  "muster_job_step" + job + "} 40",
                                  "muster_job_planned_steps" + job + "} 100",
                                  "muster_job_step_seconds" + job + "} 0.5",
                                  "muster_job_step_part_seconds" + job + ",part=\"data\"} 0.125",
                                  "muster_job_memory_bytes" + job + "} 5000",
                                  "muster_job_memory_peak_bytes" + job + "} 6000",
                                  "muster_job_accuracy_ratio" + job + ",split=\"validation\"} 0.75",
                                  "muster_job_perplexity" + job + ",split=\"validation\"} 7.5",
                                  "muster_job_own_metric" + job + ",metric=\"reward\"} 1",
                                  "muster_job_checkpoints_total" + job + "} 1",
                                  "muster_job_restarts_total" + job + "} 2",
                                  "muster_job_state" + job + ",state=\"running\"} 1",
                                  std::string("muster_jobs{state=\"running\"} 1"),
                                  std::string("muster_ingest_metric_points_total 17"),
                                  std::string("muster_ingest_dropped_points_total 5"),
                                  std::string("muster_ingest_dropped_log_bytes_total 6"),
                                  std::string("muster_state_commits_total 3")}) {
    EXPECT_THAT(text, HasSubstr(line + "\n"));
  }
  EXPECT_THAT(text, Not(HasSubstr("metric=\"loss\""))) << "what has a series of its own";
  EXPECT_THAT(text, HasSubstr("muster_job_own_metrics_left_out 0\n"));
}

TEST_F(SeriesTest, WhatAJobReportsUnderItsOwnNamesIsBoundedInNumberAndLength) {
  auto job = TrainingJob(7);
  job->progress.latest.clear();
  for (size_t i = 0; i < kMaxOwnMetrics + 3; ++i) {
    job->progress.latest[absl::StrCat("m", 100 + i)] = 1;
  }
  job->progress.latest["a" + std::string(kMaxOwnMetricBytes, 'a')] = 1;
  job->progress.latest["a" + std::string(kMaxOwnMetricBytes - 1, 'b')] = 2;
  Put(job);
  const std::string text = Render();
  EXPECT_THAT(text, HasSubstr("metric=\"m100\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("bbb\"} 2\n"));
  EXPECT_THAT(text, Not(HasSubstr("aaa")));
  EXPECT_THAT(text, Not(HasSubstr(absl::StrCat("m", 100 + kMaxOwnMetrics - 1))));
  EXPECT_THAT(text, HasSubstr("muster_job_own_metrics_left_out 5\n"));
}

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Both stand as "??" on the page, and Prometheus reads no page that has a series twice.
TEST_F(SeriesTest, NamesThatLookAlikeOnThePageHaveOneSeries) {
  auto job = TrainingJob(7);
  job->progress.latest = {{"\xc3\xa4", 1}, {"\xc3\xb6", 2}};
  Put(job);
  const std::string text = Render();
  EXPECT_THAT(text, HasSubstr("metric=\"??\"} 2\n"));
  EXPECT_EQ(CountOf(text, "metric=\"??\""), 1u);
}

TEST_F(SeriesTest, SeriesOfOneMetricAreBoundedAndTheRefusedAreCounted) {
  constexpr size_t kUses = 3;
  constexpr size_t kPools = kMaxControllerSeries / kUses + 2;
  engine_.Publish([](Snapshot& s) {
    for (size_t id = 1; id <= kPools; ++id) {
      auto worker = std::make_shared<Worker>();
      worker->facts.pool = absl::StrCat("pool-", id);
      worker->facts.slots = {{0, SlotKind::kCpu, "cpu"}};
      s.workers.Put(id, worker);
    }
  });
  const size_t refused = kPools * kUses - kMaxControllerSeries;
  const std::string text = Render();
  EXPECT_EQ(CountOf(text, "muster_slots{"), kMaxControllerSeries);
  const std::string line = absl::StrCat("\nmuster_controller_dropped_series_total ", refused, "\n");
  EXPECT_NE(text.find(line), std::string::npos);
}

// 4,096 series of a metric were 455 jobs' slot-time by label, and the first ones in the table, not
// those that ran, had them.
TEST_F(SeriesTest, JobsThatRunKeepTheirSeriesHoweverManyWaitOrHaveEnded) {
  constexpr size_t kRunning = 600;
  const size_t waiting = kMaxWaitingJobsShown + 4000;
  engine_.Publish([&](Snapshot& s) {
    uint64_t id = 0;
    for (size_t i = 0; i < waiting; ++i) {
      auto job = MakeJob(++id, "waits", JobState::kPending);
      job->attempt = 1;  // it was preempted: it has series of slot-time as well
      s.jobs.Put(id, job);
    }
    for (size_t i = 0; i < kRunning; ++i) {
      ++id;
      s.jobs.Put(id, MakeJob(id, "runs", JobState::kRunning));
    }
    for (size_t i = 0; i < kMaxEndedJobsShown + 7; ++i) {
      auto job = MakeJob(++id, "ended", JobState::kSucceeded);
      job->finished = inputs_.now;
      s.jobs.Put(id, job);
    }
  });
  const std::string text = Render();
  const std::string ledger = "muster_job_slot_seconds_total{job_id=";
  EXPECT_EQ(CountOf(text, "job_name=\"runs\",label="), kRunning * kTimeLabelCount);
  EXPECT_EQ(CountOf(text, "job_name=\"runs\",state=\"running\""), kRunning);
  EXPECT_EQ(CountOf(text, "job_name=\"waits\",label="), kMaxWaitingJobsShown * kTimeLabelCount);
  EXPECT_EQ(CountOf(text, "job_name=\"ended\",label="), kMaxEndedJobsShown * kTimeLabelCount);
  EXPECT_EQ(CountOf(text, ledger),
            (kRunning + kMaxWaitingJobsShown + kMaxEndedJobsShown) * kTimeLabelCount);
  for (const std::string& line :
       {absl::StrCat("muster_jobs_without_series{state=\"waiting\"} 4000"),
        absl::StrCat("muster_jobs_without_series{state=\"ended\"} 7"),
        absl::StrCat("muster_jobs_without_series{state=\"running\"} 0"),
        absl::StrCat("muster_controller_dropped_series_total 0")}) {
    EXPECT_THAT(text, HasSubstr(line + "\n"));
  }
}

TEST_F(SeriesTest, AFinishedJobsSeriesGoAwayAfterTheGrace) {
  auto job = TrainingJob(7);
  job->state = JobState::kSucceeded;
  job->finished = inputs_.now - absl::Seconds(59);
  job->results = {{"test_accuracy", 0.98}};
  Put(job);
  EXPECT_THAT(Render(), HasSubstr("split=\"test\"} 0.98"));
  inputs_.now += absl::Seconds(2);
  const std::string text = Render();
  EXPECT_THAT(text, Not(HasSubstr("job_id=\"7\"")));
  EXPECT_THAT(text, HasSubstr("muster_jobs{state=\"succeeded\"} 1\n"));
}

TEST_F(SeriesTest, WhoSetsTheWallClockChangesNoGraceAndNoWait) {
  for (const absl::Duration by : {absl::Hours(-10'000), absl::Hours(10'000)}) {
    const auto put = [&](uint64_t id, JobState from, JobState to, absl::Duration ago) {
      auto job = TrainingJob(id);
      job->state = to;
      job->finished = inputs_.now + by - ago;
      job->events.push_back(
          std::make_shared<const JobEvent>(JobEvent{.sequence = id,
                                                    .job_id = id,
                                                    .time = inputs_.now + by - ago,
                                                    .from = from,
                                                    .to = to,
                                                    .at = inputs_.now - ago}));
      Put(job);
    };
    put(7, JobState::kRunning, JobState::kSucceeded, absl::Seconds(59));
    put(8, JobState::kRunning, JobState::kSucceeded, absl::Seconds(61));
    put(9, JobState::kRecovering, JobState::kPending, absl::Seconds(30));
    const std::string text = Render();
    EXPECT_THAT(text, HasSubstr("job_id=\"7\""));
    EXPECT_THAT(text, Not(HasSubstr("job_id=\"8\"")));
    EXPECT_THAT(text, HasSubstr("muster_queue_oldest_wait_seconds 30\n"));
  }
}

TEST_F(SeriesTest, EndsOfJobsAreCountedAndNotTheJobsThatHaveEnded) {
  Put(MakeJob(1, "of an earlier life", JobState::kFailed));
  engine_.Publish([](Snapshot& s) { s.counters.jobs_finished[JobState::kFailed] = 2; });
  Put(MakeJob(2, "queued again", JobState::kPending));
  const std::string text = Render();
  EXPECT_THAT(text, HasSubstr("muster_jobs_finished_total{state=\"failed\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("muster_jobs_finished_total{state=\"succeeded\"} 0\n"));
}

TEST_F(SeriesTest, CountersDoNotGoBackWhenJobsAreForgotten) {
  auto job = MakeJob(1, "old", JobState::kFailed);
  job->ledger.settled[TimeLabel::kProductive] = absl::Seconds(40);
  job->ledger.settled_queued = absl::Seconds(7);
  Put(job);
  const std::string project = job->settings->project;
  const std::vector<std::string> lines = {
      absl::StrCat("muster_project_queue_seconds_total{project=\"", project, "\"} 7\n"),
      absl::StrCat("muster_project_slot_seconds_total{project=\"", project,
                   "\",label=\"productive\"} 40\n")};
  const std::string before = Render();
  for (const std::string& line : lines) EXPECT_THAT(before, HasSubstr(line));
  engine_.Publish([&](Snapshot& s) {
    Draft draft(s);
    draft.ArchiveJob(1, 0);
    s = *draft.Finish();
  });
  const std::string after = Render();
  for (const std::string& line : lines) EXPECT_THAT(after, HasSubstr(line));
  EXPECT_THAT(after, HasSubstr("muster_jobs{state=\"failed\"} 0\n"));
}

TEST_F(SeriesTest, TheLongestWaitBesideFreeSlotsIsOfJobsThatTheyCouldHold) {
  engine_.Publish([](Snapshot& s) {
    for (const uint64_t id : {1, 2}) {
      auto worker = std::make_shared<Worker>();
      worker->facts.pool = "default";
      worker->facts.slots = {{0, SlotKind::kCpu, "cpu"}, {1, SlotKind::kCpu, "cpu"}};
      worker->pulse.holders[1] = {9, 1, 0};
      s.workers.Put(id, worker);
    }
  });
  const auto wait = [&](uint64_t id, absl::Duration waited, const JobNeeds& needs,
                        bool held = false) {
    auto job = MakeJob(id, "waits", JobState::kPending);
    job->attempt = 0;
    job->submitted = inputs_.now - waited;
    job->held = held;
    auto settings = std::make_shared<JobSettings>(*job->settings);
    settings->needs = needs;
    job->settings = settings;
    Put(job);
  };
  JobNeeds needs;
  needs.pools = {{.name = "default", .after = {}}};
  needs.min_ranks = 3;  // two slots are free
  wait(11, absl::Seconds(60), needs);
  needs.min_ranks = 1;
  needs.slots_per_rank = 2;  // no worker has two
  wait(12, absl::Seconds(50), needs);
  needs.slots_per_rank = 1;
  needs.slot_kind = SlotKind::kGpu;
  wait(13, absl::Seconds(45), needs);
  needs.slot_kind = SlotKind::kCpu;
  wait(14, absl::Seconds(40), needs, /*held=*/true);
  needs.pools[0].name = "other";
  wait(15, absl::Seconds(35), needs);
  EXPECT_THAT(Render(), HasSubstr("muster_queue_oldest_fitting_wait_seconds 0\n"));
  needs.pools.push_back({.name = "default", .after = absl::Seconds(20)});
  wait(16, absl::Seconds(15), needs);
  EXPECT_THAT(Render(), HasSubstr("muster_queue_oldest_fitting_wait_seconds 0\n"));
  wait(17, absl::Seconds(30), needs);
  EXPECT_THAT(Render(), HasSubstr("muster_queue_oldest_fitting_wait_seconds 30\n"));
  EXPECT_THAT(Render(), HasSubstr("muster_queue_oldest_wait_seconds 60\n"));
}

TEST_F(SeriesTest, TheQueueAndTheWorkersAreCounted) {
  auto waiting = MakeJob(1, "waits", JobState::kPending);
  waiting->attempt = 0;
  waiting->submitted = inputs_.now - absl::Seconds(30);
  Put(waiting);
  engine_.Publish([](Snapshot& s) {
    auto worker = std::make_shared<Worker>();
    worker->facts.pool = "default";
    worker->facts.slots = {{0, SlotKind::kCpu, "cpu"}, {1, SlotKind::kCpu, "cpu"}};
    worker->pulse.holders[1] = {9, 1, 0};
    s.workers.Put(1, worker);
    auto lost = std::make_shared<Worker>(*worker);
    lost->lost = true;
    s.workers.Put(2, lost);
  });
  const std::string text = Render();
  for (const char* line : {"muster_queue_jobs 1", "muster_queue_oldest_wait_seconds 30",
                           "muster_workers{state=\"ready\"} 1", "muster_workers{state=\"lost\"} 1",
                           "muster_slots{pool=\"default\",kind=\"cpu\",use=\"free\"} 1",
                           "muster_slots{pool=\"default\",kind=\"cpu\",use=\"used\"} 2",
                           "muster_slots{pool=\"default\",kind=\"cpu\",use=\"unavailable\"} 1"}) {
    EXPECT_THAT(text, HasSubstr(std::string(line) + "\n"));
  }
  EXPECT_THAT(text, Not(HasSubstr("muster_job_step{")))
      << "a job that never ran has no training series";
}

// After `nodes drain` and `undrain` of one of three workers it was counted as drained and as ready.
TEST_F(SeriesTest, AWorkerIsCountedInTheStateThatItIsInAlone) {
  Worker worker;
  const auto render = [&](const std::string& state) {
    EXPECT_EQ(WorkerStateName(worker), state);
    engine_.Publish([&](Snapshot& s) { s.workers.Put(1, std::make_shared<const Worker>(worker)); });
    const std::string text = Render();
    for (const char* any : {"ready", "suspect", "quarantined", "drained", "draining", "lost"}) {
      EXPECT_THAT(text, HasSubstr(absl::StrCat("muster_workers{state=\"", any, "\"} ",
                                               any == state ? 1 : 0, "\n")));
    }
  };
  render("ready");
  worker.pulse.suspect = true;
  render("suspect");
  worker.pulse.suspect = false;
  worker.cordoned = true;
  render("drained");
  worker.cordoned = false;
  worker.quarantined_until = inputs_.now;
  render("quarantined");
  worker.quarantined_until = absl::InfinitePast();
  worker.draining = true;
  render("draining");
  worker.lost = true;
  render("lost");
  worker = {};
  render("ready");
}

TEST_F(SeriesTest, LostAttemptsAreCountedByTheirFailure) {
  auto job = TrainingJob(7);
  const auto attempt = [](FailureClass failure, bool live) {
    Attempt made;
    made.failure_class = failure;
    if (!live) made.ended = absl::FromUnixSeconds(1);
    return std::make_shared<const Attempt>(made);
  };
  job->past = {attempt(FailureClass::kHang, false), attempt(FailureClass::kNone, false),
               attempt(FailureClass::kHang, false)};
  job->current = attempt(FailureClass::kNonFinite, false);
  Put(job);
  const std::string series = "muster_job_failures_total{job_id=\"7\",job_name=\"digits\"";
  const std::string text = Render();
  EXPECT_THAT(text, HasSubstr(series + ",failure_class=\"hang\"} 2\n"));
  EXPECT_THAT(text, HasSubstr(series + ",failure_class=\"non_finite\"} 1\n"));
  EXPECT_EQ(CountOf(text, series), 2u);
}

// Ten thousand jobs that have ended leave nothing behind once the grace is over.
TEST_F(SeriesTest, TenThousandFinishedJobsLeaveNoSeries) {
  constexpr uint64_t kJobs = 10'000;
  engine_.Publish([&](Snapshot& s) {
    for (uint64_t id = 1; id <= kJobs; ++id) {
      auto job = TrainingJob(id);
      job->state = JobState::kSucceeded;
      job->finished = inputs_.now;
      s.jobs.Put(id, job);
    }
  });
  EXPECT_EQ(CountOf(Render(), "muster_job_step{"), kMaxEndedJobsShown);
  inputs_.now += inputs_.series_grace + absl::Seconds(1);
  const std::string text = Render();
  EXPECT_EQ(CountOf(text, "job_id="), 0u);
  EXPECT_THAT(text, HasSubstr(absl::StrCat("muster_jobs{state=\"succeeded\"} ", kJobs, "\n")));
}

TEST_F(SeriesTest, PromtoolFindsNothingToSay) {
  constexpr char kPromtool[] = "/usr/bin/promtool";
  ASSERT_TRUE(std::ifstream(kPromtool).good()) << kPromtool << " is not installed";
  Put(TrainingJob(7));
  families_.Add(metric::kRpcRequestsTotal, {"Submit", "OK"});
  families_.Add(metric::kRpcSecondsTotal, {"Submit"}, 0.5);
  families_.Set(metric::kRpcStreams, {"Control"}, 2);
  testing::TempDir dir;
  std::ofstream(dir / "metrics") << Render();
  const std::string command = std::string(kPromtool) + " check metrics < " + (dir / "metrics") +
                              " > " + (dir / "said") + " 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::ifstream said(dir / "said");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(said), {}), "");
}

TEST_F(SeriesTest, TheLedgerShowsWhatIsSettledByJobAndByProject) {
  auto one = TrainingJob(7);
  one->attempt = 1;
  one->ledger.times[TimeLabel::kProductive] = absl::Seconds(100);
  one->ledger.settled[TimeLabel::kProductive] = absl::Seconds(90);
  one->ledger.settled[TimeLabel::kRecompute] = absl::Milliseconds(2500);
  one->ledger.settled_queued = absl::Seconds(4);
  auto two = TrainingJob(8);
  two->ledger.settled[TimeLabel::kProductive] = absl::Seconds(10);
  Put(one);
  Put(two);
  const std::string text = Render();
  const std::string job = "{job_id=\"7\",job_name=\"digits\"";
  for (const std::string& line :
       {"muster_job_slot_seconds_total" + job + ",label=\"productive\"} 90",
        "muster_job_slot_seconds_total" + job + ",label=\"recompute\"} 2.5",
        "muster_job_slot_seconds_total" + job + ",label=\"hang\"} 0",
        "muster_job_queue_seconds_total" + job + "} 4",
        "muster_project_slot_seconds_total{project=\"" + one->settings->project +
            "\",label=\"productive\"} 100"}) {
    EXPECT_THAT(text, HasSubstr(line + "\n"));
  }
}

}  // namespace
}  // namespace muster::controller
