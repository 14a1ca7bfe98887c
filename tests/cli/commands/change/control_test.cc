// The verbs that change jobs and workers which are there, against a service without a controller.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_split.h"
#include "cli/calls/change.h"
#include "cli/output/proto_json.h"
#include "cli/submission/priority.h"
#include "cli/submission/when.h"
#include "tests/cli/cli_run.h"
#include "tests/cli/fake_job_service.h"
#include "tests/support/status_matchers.h"

namespace muster::cli::testing {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::StatusIs;
using ::testing::HasSubstr;

class ControlTest : public ::testing::Test {
 protected:
  ControlTest() {
    service_.Start();
    run_.env()["MUSTER_ADDR"] = service_.address();
    run_.env()["MUSTER_TOKEN"] = FakeJobService::kToken;
    service_.PutJob(MakeJob(7, "digits", v1::PENDING));
    v1::GetJobResponse task = MakeJob(44, "sweep", v1::PENDING);
    task.mutable_summary()->set_array_id(42);
    task.mutable_summary()->set_array_index(3);
    service_.PutJob(task);
  }

  FakeJobService service_;
  CliRun run_;
};

TEST_F(ControlTest, EachVerbIsOneRequestInTheUsersName) {
  const std::pair<const char*, v1::ControlJobRequest::Verb> verbs[] = {
      {"hold", v1::ControlJobRequest::HOLD},
      {"release", v1::ControlJobRequest::RELEASE},
      {"suspend", v1::ControlJobRequest::SUSPEND},
      {"resume", v1::ControlJobRequest::RESUME},
      {"requeue", v1::ControlJobRequest::REQUEUE}};
  for (const auto& [name, verb] : verbs) {
    const CliResult result = run_({name, "7"});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("job 7 digits: PENDING"));
    const v1::ControlJobRequest sent = service_.controls().back();
    EXPECT_EQ(sent.verb(), verb) << name;
    EXPECT_EQ(sent.job().id(), 7u);
    EXPECT_NE(sent.user(), "");
    EXPECT_EQ(sent.request_id().size(), 32u);
    EXPECT_FALSE(sent.whole_array());
  }
  EXPECT_EQ(service_.controls().size(), 5u);
  EXPECT_EQ(run_({"hold", "digits"}).out, "job 7 digits: PENDING (held)\n");
}

TEST_F(ControlTest, AVerbIsAskedAgainWithTheSameIdWhileNobodyAnswers) {
  service_.FailChanges({absl::UnavailableError("stopping")});
  const CliResult result = run_({"requeue", "7"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("stopping; trying for 10s"));
  const auto sent = service_.controls();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].request_id(), sent[1].request_id());
}

TEST_F(ControlTest, ATaskAndAWholeArrayAreNamedAsInSlurm) {
  EXPECT_EQ(run_({"hold", "42_3"}).out, "job 42_3 sweep: PENDING (held)\n");
  EXPECT_EQ(service_.controls().back().job().task().index(), 3u);
  service_.PutJob([] {
    v1::GetJobResponse first = MakeJob(42, "sweep", v1::PENDING);
    first.mutable_summary()->set_array_id(42);
    first.mutable_summary()->set_array_index(1);
    return first;
  }());
  EXPECT_EQ(run_({"hold", "42_*"}).out, "array 42 sweep: 3 jobs\n");
  EXPECT_TRUE(service_.controls().back().whole_array());
  EXPECT_EQ(service_.controls().back().job().id(), 42u);
  EXPECT_EQ(run_({"release", "--array", "42"}).code, 0);
  EXPECT_TRUE(service_.controls().back().whole_array());
  EXPECT_EQ(run_({"cancel", "42_*"}).code, 0);
  EXPECT_TRUE(service_.cancels().back().whole_array());
  EXPECT_NE(service_.cancels().back().user(), "");
}

TEST_F(ControlTest, TheFirstErrorDecidesTheExitCodeAndTheRestIsDone) {
  service_.FailChanges({absl::FailedPreconditionError("job 7 is RUNNING: suspend it instead")});
  const CliResult result = run_({"hold", "7", "99", "42_3"});
  EXPECT_EQ(result.code, 6);
  EXPECT_THAT(result.err, HasSubstr("suspend it instead"));
  EXPECT_THAT(result.err, HasSubstr("job 99"));
  EXPECT_EQ(result.out, "job 42_3 sweep: PENDING (held)\n");
  EXPECT_EQ(run_({"hold", "99"}).code, 3);
  EXPECT_EQ(run_({"hold"}).code, 2);
}

TEST_F(ControlTest, AnUpdateSendsWhatWasGivenAlone) {
  EXPECT_EQ(run_({"update", "7", "--priority", "high+5"}).code, 0);
  v1::UpdateJobRequest sent = service_.updates().back();
  EXPECT_EQ(sent.priority(), 1005);
  EXPECT_FALSE(sent.has_max_run_time());
  EXPECT_EQ(sent.pools_size(), 0);
  EXPECT_EQ(run_({"update", "7", "--pool", "spot,ondemand after 10m", "--max-run-time", "2h",
                  "--deadline", "none", "--begin", "2030-01-01T00:00:00Z"})
                .code,
            0);
  sent = service_.updates().back();
  EXPECT_FALSE(sent.has_priority());
  EXPECT_EQ(sent.pools(1), "ondemand after 10m");
  EXPECT_EQ(sent.max_run_time().seconds(), 7200);
  EXPECT_TRUE(sent.has_deadline());
  EXPECT_EQ(sent.deadline(), "");
  EXPECT_EQ(sent.begin(), "2030-01-01T00:00:00Z");
  EXPECT_EQ(run_({"update", "7", "--max-run-time", "none"}).code, 0);
  EXPECT_TRUE(service_.updates().back().has_max_run_time());
  EXPECT_EQ(service_.updates().back().max_run_time().seconds(), 0);
}

TEST_F(ControlTest, AnUpdateOfNothingOrToNonsenseIsAUsageError) {
  EXPECT_EQ(run_({"update", "7"}).code, 2);
  EXPECT_EQ(run_({"update", "7", "--priority", "highest"}).code, 2);
  EXPECT_EQ(run_({"update", "7", "--begin", "tomorrow"}).code, 2);
  EXPECT_EQ(run_({"update", "7", "--max-run-time", "2 parsecs"}).code, 2);
  EXPECT_TRUE(service_.updates().empty());
}

TEST_F(ControlTest, NodesAreDrainedAndUndrained) {
  v1::WorkerInfo worker;
  worker.set_name("w1");
  worker.set_state("ready");
  service_.PutWorker(worker);
  EXPECT_EQ(run_({"nodes", "drain", "w1", "--reason", "a fan"}).out, "worker w1: drained\n");
  EXPECT_TRUE(service_.cordons().back().cordoned());
  EXPECT_EQ(service_.cordons().back().reason(), "a fan");
  EXPECT_FALSE(service_.cordons().back().let_finish());
  EXPECT_EQ(run_({"nodes", "drain", "w1", "--let-finish"}).code, 0);
  EXPECT_TRUE(service_.cordons().back().let_finish());
  EXPECT_EQ(run_({"nodes", "undrain", "w1"}).out, "worker w1: ready\n");
  EXPECT_FALSE(service_.cordons().back().cordoned());
  EXPECT_EQ(run_({"nodes", "drain", "w9"}).code, 3);
  EXPECT_EQ(run_({"nodes", "drain"}).code, 2);
  EXPECT_THAT(run_({"nodes"}).out, HasSubstr("w1"));
}

TEST_F(ControlTest, LostNodesAreForgotten) {
  v1::WorkerInfo worker;
  worker.set_name("w1");
  worker.set_state("lost");
  service_.PutWorker(worker);
  EXPECT_EQ(run_({"nodes", "forget", "w1"}).out, "worker w1: forgotten\n");
  EXPECT_FALSE(service_.forgets().back().gone());
  EXPECT_EQ(run_({"nodes", "forget", "w1", "--gone"}).code, 3);
  service_.PutWorker(worker);
  const CliResult forgotten = run_({"nodes", "forget", "w1", "--gone", "-o", "json"});
  const auto json = nlohmann::json::parse(forgotten.out);
  EXPECT_EQ(json[0]["name"], "w1");
  EXPECT_TRUE(service_.forgets().back().gone());
  EXPECT_EQ(run_({"nodes", "forget"}).code, 2);
}

TEST_F(ControlTest, ANodeThatIsGoneAtTheSecondTryWasForgottenByTheFirst) {
  v1::WorkerInfo worker;
  worker.set_name("w1");
  service_.PutWorker(worker);
  service_.FailChanges({absl::UnavailableError("stopping")});
  const CliResult result = run_({"nodes", "forget", "w1", "w2"});
  EXPECT_EQ(result.out, "worker w1: forgotten\n");
  EXPECT_EQ(result.code, 3) << "nothing was lost of the second";
  EXPECT_THAT(result.err, HasSubstr("w2: unknown"));
  EXPECT_EQ(service_.forgets().size(), 3u);
  service_.PutWorker(worker);
  service_.FailChanges({absl::UnavailableError("stopping")});
  EXPECT_EQ(run_({"nodes", "forget", "w1"}).code, 0);
}

TEST_F(ControlTest, AProjectGetsAWeightAndAQuotaInParts) {
  v1::ProjectInfo project;
  project.set_name("vision");
  project.set_weight(3);
  project.mutable_quota()->set_slots(8);
  project.set_slots(2);
  project.set_used_slot_seconds(7200);
  service_.PutProject(project);
  EXPECT_THAT(run_({"project", "ls"}).out, HasSubstr("vision"));
  EXPECT_THAT(run_({"share", "--no-header"}).out, HasSubstr("100.0%  100.0%  2.00"));
  EXPECT_EQ(run_({"project", "set", "vision", "--weight", "2.5"}).code, 0);
  EXPECT_EQ(service_.project_sets().back().weight(), 2.5);
  EXPECT_FALSE(service_.project_sets().back().has_quota());
  // The bound that is not given stays.
  EXPECT_EQ(run_({"quota", "set", "vision", "--queued", "100"}).code, 0);
  v1::SetProjectRequest sent = service_.project_sets().back();
  EXPECT_FALSE(sent.has_weight());
  EXPECT_EQ(sent.quota().slots(), 8u);
  EXPECT_EQ(sent.quota().queued(), 100u);
  EXPECT_EQ(run_({"quota", "set", "vision", "--slots", "none"}).code, 0);
  sent = service_.project_sets().back();
  EXPECT_TRUE(sent.has_quota());
  EXPECT_FALSE(sent.quota().has_slots());
  EXPECT_EQ(run_({"quota", "set", "vision", "--user", "bob", "--slots", "4"}).code, 0);
  EXPECT_EQ(service_.project_sets().back().users().at("bob").slots(), 4u);
  EXPECT_EQ(run_({"quota", "set", "vision", "--user", "bob", "--reset"}).code, 0);
  EXPECT_EQ(service_.project_sets().back().reset_users(0), "bob");
  EXPECT_EQ(run_({"quota", "set", "vision"}).code, 2);
  EXPECT_EQ(run_({"quota", "set", "vision", "--slots", "many"}).code, 2);
  EXPECT_EQ(run_({"quota", "set", "vision", "--reset"}).code, 2);
  EXPECT_EQ(run_({"project", "set", "vision", "--weight", "0"}).code, 2);
}

TEST_F(ControlTest, HistoryAsksForWhatHasEnded) {
  v1::GetJobResponse job = MakeJob(9, "done", v1::SUCCEEDED);
  job.mutable_summary()->set_owner("ada");
  job.mutable_summary()->set_started_ms(1'700'000'060'000);
  job.mutable_summary()->set_finished_ms(1'700'000'660'000);
  job.mutable_summary()->set_ran_ms(600'000);
  job.mutable_summary()->set_slot_seconds(1800);
  service_.PutJob(job);
  const CliResult result = run_({"history", "--no-header", "--since", "2023-11-14T00:00:00Z"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "9  done  ada  SUCCEEDED  2023-11-14 22:24:20  1m  11m  10m  0.50  0\n");
  EXPECT_EQ(service_.last_list().finished_from_ms(), 1'699'920'000'000);
  EXPECT_EQ(service_.last_list().states_size(), 3);
  EXPECT_EQ(run_({"history", "-q", "--owner", "bob"}).out, "");
  EXPECT_EQ(run_({"history", "--since", "yesterday"}).code, 2);
}

TEST_F(ControlTest, EventsGoOnBehindWhatWasPrintedAfterAReconnect) {
  for (uint64_t i = 1; i <= 3; ++i) {
    v1::JobEvent event;
    event.set_sequence(i);
    event.set_job_id(i == 2 ? 8 : 7);
    event.set_time_ms(1'700'000'000'000);
    event.set_to(v1::PENDING);
    event.set_reason(v1::HELD);
    event.set_actor("user:ada");
    event.set_message("held");
    service_.PutEvent(event);
  }
  EXPECT_EQ(run_({"events", "8"}).out,
            "2023-11-14 22:13:20  job 8  PENDING  HELD  user:ada  held\n");
  const CliResult followed = run_({"events", "-f", "-o", "jsonl"});
  EXPECT_EQ(followed.code, 0) << followed.err;
  std::vector<int> sequences;
  for (const auto& line : absl::StrSplit(followed.out, '\n', absl::SkipEmpty())) {
    sequences.push_back(Json::parse(line.begin(), line.end())["sequence"].get<int>());
  }
  EXPECT_THAT(sequences, ::testing::ElementsAre(1, 2, 3));
}

TEST_F(ControlTest, EventsThatAreFollowedForATimeEndAsAWaitDoes) {
  service_.SetEventsEnd(absl::DeadlineExceededError("so long was asked for"));
  const CliResult result = run_({"events", "-f", "--timeout", "1m"});
  EXPECT_EQ(result.code, 8);
  EXPECT_THAT(result.err, HasSubstr("the jobs go on"));
}

TEST_F(ControlTest, LogsGoOnBehindWhatWasPrintedAfterAReconnect) {
  service_.PutJob(MakeJob(7, "digits", v1::SUCCEEDED));
  const auto chunk = [](uint64_t offset, const std::string& text, bool is_stderr) {
    v1::StreamLogsResponse made;
    made.set_attempt(1);
    made.set_offset(offset);
    made.set_text(text);
    made.set_is_stderr(is_stderr);
    return made;
  };
  service_.PutLog(7, chunk(0, "old warning\n", true));
  service_.PutLog(7, chunk(0, "one\n", false));
  service_.PutLog(7, chunk(4, "two\n", false));
  service_.CutLogsOff(1, {chunk(8, "three\n", false), chunk(12, "new warning\n", true),
                          chunk(14, "four\n", false)});
  const CliResult result = run_({"logs", "-f", "7", "--tail", "1"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "two\nthree\nnew warning\nfour\n");
  EXPECT_THAT(result.err, HasSubstr("lost the controller"));
}

// As the controller ends a stream whose client has not read for minutes: its output stood still.
TEST_F(ControlTest, FollowersComeBackAfterTheControllerCancelledTheirStreams) {
  service_.SetCutEnd(absl::CancelledError("CANCELLED"));
  service_.PutJob(MakeJob(7, "digits", v1::SUCCEEDED));
  v1::StreamLogsResponse chunk;
  chunk.set_attempt(1);
  chunk.set_text("one\n");
  service_.PutLog(7, chunk);
  chunk.set_offset(4);
  chunk.set_text("two\n");
  service_.CutLogsOff(1, {chunk});
  const CliResult logs = run_({"logs", "-f", "7"});
  EXPECT_EQ(logs.code, 0) << logs.err;
  EXPECT_EQ(logs.out, "one\ntwo\n");
  for (uint64_t i = 1; i <= 2; ++i) {
    v1::JobEvent event;
    event.set_sequence(i);
    event.set_job_id(7);
    service_.PutEvent(event);
  }
  service_.CutLogsOff(1, {});
  const CliResult whole = run_({"logs", "7"});
  EXPECT_EQ(whole.code, 0) << whole.err;
  EXPECT_EQ(whole.out, "one\ntwo\n") << "as behind a pager";
  const CliResult events = run_({"events", "-f", "-o", "jsonl"});
  EXPECT_EQ(events.code, 0) << events.err;
  EXPECT_EQ(std::count(events.out.begin(), events.out.end(), '\n'), 2) << events.out;
}

TEST_F(ControlTest, EventsOfANamedJobGoOnWithThatJob) {
  service_.SetCutEnd(absl::CancelledError("CANCELLED"));
  service_.PutJob(MakeJob(7, "digits", v1::RUNNING));
  for (uint64_t i = 1; i <= 2; ++i) {
    v1::JobEvent event;
    event.set_sequence(i);
    event.set_job_id(7);
    service_.PutEvent(event);
  }
  service_.PutJobWhenEventsAreCut(MakeJob(8, "digits", v1::RUNNING));
  const CliResult events = run_({"events", "digits", "-f", "-o", "jsonl"});
  EXPECT_EQ(events.code, 0) << events.err;
  EXPECT_EQ(std::count(events.out.begin(), events.out.end(), '\n'), 2) << events.out;
}

// A worker that was cut off delivers what a former attempt wrote: the log comes by attempts then.
TEST_F(ControlTest, WhatAFormerAttemptWroteIsPrintedThoughItCameLate) {
  service_.PutJob(MakeJob(7, "digits", v1::SUCCEEDED));
  const auto chunk = [](uint32_t attempt, const std::string& text, bool is_stderr) {
    v1::StreamLogsResponse made;
    made.set_attempt(attempt);
    made.set_text(text);
    made.set_is_stderr(is_stderr);
    return made;
  };
  service_.PutLog(7, chunk(2, "two\n", false));
  service_.CutLogsOff(1, {chunk(1, "traceback\n", true)});
  const CliResult result = run_({"logs", "-f", "7"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("traceback\n"));
}

TEST_F(ControlTest, TheTimeoutOfLogsThatAreFollowedIsThatOfAllConnections) {
  service_.CutLogsOff(/*calls=*/1'000'000);
  const CliResult result = run_({"logs", "-f", "7", "--timeout", "1s"});
  EXPECT_EQ(result.code, 8) << result.err;
  EXPECT_THAT(result.err, HasSubstr("job 7 goes on"));
}

TEST(PriorityTest, IsANumberAClassOrBoth) {
  const std::pair<const char*, int32_t> good[] = {
      {"0", 0},        {"250", 250},   {"-7", -7},        {"low", -1000},
      {"normal+3", 3}, {"high", 1000}, {"low-10", -1010}, {"urgent", 2000}};
  for (const auto& [text, total] : good) {
    const auto priority = ParsePriority(text);
    ASSERT_OK(priority) << text;
    EXPECT_EQ(TotalPriority(*priority), total) << text;
  }
  for (const char* bad : {"", "highest", "high5", "1000", "-1000", "1e3", "+", "high+1000"}) {
    EXPECT_THAT(ParsePriority(bad), StatusIs(absl::StatusCode::kInvalidArgument)) << bad;
  }
}

TEST(WhenTest, IsATimeOrCountsFromNow) {
  const absl::Time now = absl::FromUnixSeconds(1'700'000'000);  // 2023-11-14T22:13:20Z
  EXPECT_EQ(*ParseWhen("now", now), "2023-11-14T22:13:20Z");
  EXPECT_EQ(*ParseWhen("now+1h", now), "2023-11-14T23:13:20Z");
  EXPECT_EQ(*ParseWhen("+90s", now), "2023-11-14T22:14:50Z");
  EXPECT_EQ(*ParseWhen("2030-01-01T00:00:00+02:00", now), "2030-01-01T00:00:00+02:00");
  for (const char* bad : {"", "tomorrow", "10:00", "now+", "now-1h", "+1 year"}) {
    EXPECT_THAT(ParseWhen(bad, now), StatusIs(absl::StatusCode::kInvalidArgument)) << bad;
  }
}

}  // namespace
}  // namespace muster::cli::testing
