#include "controller/api/job_service.h"

#include <future>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/version.h"
#include "common/spec/packed_spec.h"
#include "tests/controller/api/api_fixture.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Stub = v1::JobService::Stub;

v1::SubmitRequest GoodSubmit() {
  v1::SubmitRequest request;
  request.set_protocol_version(kProtocolVersion);
  request.set_owner("ada");
  v1::JobSpec* spec = request.mutable_spec();
  spec->set_name("digits");
  spec->mutable_ranks()->set_min(2);
  spec->mutable_train()->mutable_model()->mutable_mlp();
  spec->mutable_train()->mutable_data()->mutable_synthetic();
  spec->mutable_train()->set_batch_size(32);
  spec->mutable_train()->set_steps(100);
  return request;
}

class JobServiceTest : public ApiFixture {
 protected:
  absl::StatusOr<v1::SubmitResponse> Submit(const v1::SubmitRequest& request) {
    v1::SubmitResponse response;
    const absl::Status status = Call(&Stub::Submit, request, response);
    if (!status.ok()) return status;
    return response;
  }
  void PutJob(std::shared_ptr<Job> job) {
    engine_.Publish([&](Snapshot& s) {
      s.jobs.Put(job->id, job);
      s.by_name.Put(job->settings->name, {.newest = job->id});
    });
  }
  void Store(MetricsBatch batch) {
    std::promise<absl::Status> stored;
    ingest_->Submit(std::move(batch), [&](const absl::Status& s) { stored.set_value(s); });
    ASSERT_OK(stored.get_future().get());
  }
};

TEST_F(JobServiceTest, VersionNamesTheTerm) {
  v1::GetVersionResponse response;
  ASSERT_OK(Call(&Stub::GetVersion, v1::GetVersionRequest(), response));
  EXPECT_EQ(response.version(), Version());
  EXPECT_EQ(response.protocol_version(), kProtocolVersion);
  EXPECT_EQ(response.term(), 7u);
}

TEST_F(JobServiceTest, SubmitResolvesTheSpecAndAnswersAfterTheCommit) {
  engine_.on_event = [](const Event& event) {
    EXPECT_TRUE(std::holds_alternative<SubmitJob>(event));
    EventResult result;
    result.job_id = 42;
    return result;
  };
  v1::SubmitRequest request = GoodSubmit();
  request.set_idempotency_key("key-1");
  ASSERT_OK_AND_ASSIGN(const v1::SubmitResponse response, Submit(request));
  EXPECT_EQ(response.job_id(), 42u);
  EXPECT_EQ(response.resolved_spec().project(), "default");
  EXPECT_EQ(response.resolved_spec().checkpoint().url(), "/ckpt");
  const std::vector<Event> events = engine_.events();
  ASSERT_EQ(events.size(), 1u);
  const auto& submit = std::get<SubmitJob>(events[0]);
  EXPECT_EQ(submit.owner, "ada");
  EXPECT_EQ(submit.idempotency_key, "key-1");
  EXPECT_EQ(submit.settings->name, "digits");
  EXPECT_EQ(submit.settings->needs.min_ranks, 2u);
  EXPECT_EQ(submit.settings->needs.max_ranks, 2u);
  EXPECT_EQ(submit.settings->checkpoint_root, "/ckpt");
  EXPECT_EQ(submit.settings->restart.backoff, absl::Seconds(1));
  EXPECT_THAT(PackedSpecToJson(submit.settings->spec), HasSubstr("\"batch_size\""));
}

TEST_F(JobServiceTest, TheSpecIsKeptAsItWasSentAndShownBesideTheResolvedOne) {
  const v1::SubmitRequest request = GoodSubmit();
  ASSERT_OK(Submit(request));
  const auto submit = std::get<SubmitJob>(engine_.events().at(0));
  EXPECT_EQ(submit.settings->written_spec, PackSpec(request.spec()));
  auto job = MakeJob(7, "digits");
  job->settings = submit.settings;
  PutJob(job);
  v1::GetJobRequest get;
  get.mutable_job()->set_id(7);
  v1::GetJobResponse response;
  ASSERT_OK(Call(&Stub::GetJob, get, response));
  EXPECT_EQ(response.written_spec().DebugString(), request.spec().DebugString());
  EXPECT_EQ(response.spec().project(), "default");
  EXPECT_EQ(response.written_spec().project(), "");
  EXPECT_EQ(response.artifact_folder(), "") << "it asks for none";
}

TEST_F(JobServiceTest, AJobShowsWhereItsArtifactsAreAndHowOftenItIsTriedAgain) {
  v1::SubmitRequest request = GoodSubmit();
  request.mutable_spec()->mutable_train()->mutable_artifacts()->set_confusion(true);
  request.mutable_spec()->mutable_restart()->set_max_restarts(3);
  request.mutable_spec()->mutable_restart()->mutable_budgets()->set_hang(2);
  ASSERT_OK(Submit(request));
  auto job = MakeJob(7, "digits");
  job->settings = std::get<SubmitJob>(engine_.events().at(0)).settings;
  job->restarts_in_row = 2;
  job->charged = {{FailureClass::kHang, 1}, {FailureClass::kWorkerLost, 1}};
  job->progress.latest = {{"validation_loss", 2.5}};
  PutJob(job);
  v1::GetJobRequest get;
  get.mutable_job()->set_id(7);
  v1::GetJobResponse response;
  ASSERT_OK(Call(&Stub::GetJob, get, response));
  EXPECT_EQ(response.artifact_folder(), "/ckpt/job-7/artifacts");
  EXPECT_EQ(response.summary().validation_loss(), 2.5);
  std::map<v1::FailureClass, std::string> left;
  for (const v1::RestartBudget& budget : response.budgets()) {
    left[budget.failure_class()] =
        absl::StrCat(budget.left(), " of ", budget.budget(), budget.shared() ? " shared" : "");
  }
  EXPECT_EQ(left.at(v1::HANG), "1 of 2");
  EXPECT_EQ(left.at(v1::WORKER_LOST), "2 of 3 shared");
  EXPECT_EQ(left.at(v1::APPLICATION), "2 of 3 shared");
  EXPECT_EQ(left.at(v1::OUT_OF_MEMORY), "0 of 0");
}

// Operators of TorchScript write files: such a job could do so on a worker that runs no commands.
TEST_F(JobServiceTest, NetworksThatAreCodeNeedTheRightOfCommands) {
  v1::SubmitRequest plain = GoodSubmit();
  v1::SubmitRequest plugin = GoodSubmit();
  plugin.mutable_spec()->mutable_train()->mutable_model()->mutable_plugin()->set_path("/a.so");
  v1::SubmitRequest script = GoodSubmit();
  script.mutable_spec()->mutable_train()->mutable_model()->mutable_torchscript()->set_path("/a.pt");
  v1::SubmitRequest taught = GoodSubmit();
  v1::Distill& distill = *taught.mutable_spec()->mutable_train()->mutable_distill();
  distill.set_teacher("/teacher.safetensors");
  distill.mutable_model()->mutable_torchscript()->set_path("/a.pt");
  for (const auto& [request, code] :
       {std::pair(plain, false), {plugin, true}, {script, true}, {taught, true}}) {
    const size_t before = engine_.events().size();
    ASSERT_OK(Submit(request)) << request.DebugString();
    EXPECT_EQ(std::get<SubmitJob>(engine_.events().at(before)).settings->needs.commands, code);
  }
}

// Most commands save nothing, and run where the default root is not to be seen, too.
TEST_F(JobServiceTest, ACommandCountsOnACheckpointRootOnlyWhenItSpeaksOfCheckpoints) {
  const auto root_of = [this](const v1::SubmitRequest& request) {
    const size_t before = engine_.events().size();
    EXPECT_OK(Submit(request)) << request.DebugString();
    return std::get<SubmitJob>(engine_.events().at(before)).settings->needs.root;
  };
  v1::SubmitRequest request = GoodSubmit();
  EXPECT_EQ(root_of(request), "/ckpt");
  request.mutable_spec()->clear_train();
  request.mutable_spec()->clear_checkpoint();
  request.mutable_spec()->mutable_command()->add_argv("true");
  request.mutable_spec()->mutable_command()->set_workdir("/home/ann");
  EXPECT_EQ(root_of(request), "");
  request.mutable_spec()->mutable_checkpoint()->set_keep_last(2);
  EXPECT_EQ(root_of(request), "/ckpt");
  request.mutable_spec()->mutable_checkpoint()->set_url("/shared/runs");
  EXPECT_EQ(root_of(request), "/shared/runs");
}

TEST_F(JobServiceTest, AFileUrlIsAFolder) {
  v1::SubmitRequest request = GoodSubmit();
  request.mutable_spec()->mutable_checkpoint()->set_url("file:///shared/runs/");
  ASSERT_OK(Submit(request));
  EXPECT_EQ(std::get<SubmitJob>(engine_.events()[0]).settings->checkpoint_root, "/shared/runs");
}

TEST_F(JobServiceTest, ABadSpecIsRefusedWithAllItsFaultsAndStoresNothing) {
  v1::SubmitRequest request = GoodSubmit();
  request.mutable_spec()->set_name("Not A Name");
  request.mutable_spec()->mutable_train()->set_batch_size(0);
  EXPECT_THAT(Submit(request), StatusIs(absl::StatusCode::kInvalidArgument,
                                        AllOf(HasSubstr("name"), HasSubstr("train.batch_size"))));
  request = GoodSubmit();
  (*request.mutable_spec()->mutable_tags())["x"] = std::string(65 << 10, 'x');
  EXPECT_THAT(Submit(request), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("64 KiB")));
  request = GoodSubmit();
  request.set_idempotency_key(std::string(129, 'k'));
  EXPECT_THAT(Submit(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("idempotency_key")));
  request = GoodSubmit();
  request.set_owner("two words");
  EXPECT_THAT(Submit(request), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("owner")));
  EXPECT_TRUE(engine_.events().empty());
}

TEST_F(JobServiceTest, AnotherProtocolVersionNamesBothAndTheWayOut) {
  v1::SubmitRequest request = GoodSubmit();
  request.set_protocol_version(kProtocolVersion + 1);
  EXPECT_THAT(
      Submit(request),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr(absl::StrCat("speaks ", kProtocolVersion + 1)),
                     HasSubstr(absl::StrCat("speaks ", kProtocolVersion)), HasSubstr("install"))));
}

TEST_F(JobServiceTest, AnOlderPeerThatIsUnderstoodIsServed) {
  v1::SubmitRequest request = GoodSubmit();
  request.set_protocol_version(kOldestPeer);
  EXPECT_OK(Submit(request));
}

TEST_F(JobServiceTest, WhatTheEngineRefusesKeepsItsCode) {
  engine_.on_event = [](const Event&) {
    EventResult result;
    result.status = absl::ResourceExhaustedError("no room left");
    return result;
  };
  EXPECT_THAT(Submit(GoodSubmit()),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("no room left")));
}

TEST_F(JobServiceTest, ADryRunStoresNothingAndForecasts) {
  v1::SubmitRequest request = GoodSubmit();
  request.set_dry_run(true);
  Explanation forecast;
  forecast.forecast = "would start now: 2 ranks on w1";
  forecast.start = absl::FromUnixMillis(123'456);
  forecast.ranks = {{.worker = "w1", .slots = {0}}, {.worker = "w1", .slots = {3}}};
  forecast.slots = 2;
  forecast.run_time = absl::Minutes(30);
  forecast.run_time_source = RunTimeSource::kLearned;
  forecast.slot_hours = 1;
  engine_.explanation = forecast;
  ASSERT_OK_AND_ASSIGN(const v1::SubmitResponse response, Submit(request));
  EXPECT_EQ(response.forecast(), "would start now: 2 ranks on w1");
  const v1::Outlook& outlook = response.outlook();
  EXPECT_EQ(outlook.start_ms(), 123'456);
  ASSERT_EQ(outlook.places_size(), 1);
  EXPECT_EQ(outlook.places(0).worker(), "w1");
  EXPECT_EQ(outlook.places(0).ranks(), 2u);
  EXPECT_EQ(outlook.places(0).slots(1), 3u);
  EXPECT_EQ(outlook.run_seconds(), 1800);
  EXPECT_EQ(outlook.run_time_source(), v1::LEARNED);
  EXPECT_EQ(outlook.slot_hours(), 1);
  EXPECT_EQ(response.job_id(), 0u);
  EXPECT_TRUE(engine_.events().empty());
  engine_.explanation = absl::FailedPreconditionError("refused: needs 2 slots, the pool has 1");
  EXPECT_THAT(Submit(request),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("refused:")));
}

TEST_F(JobServiceTest, AnExplanationIsAnsweredInFields) {
  PutJob(MakeJob(1, "first", JobState::kRunning));
  PutJob(MakeJob(2, "second", JobState::kPending));
  Explanation e;
  e.waits = true;
  e.reason = "waits behind job 1";
  e.blockers = {{.kind = BlockerKind::kGpuType, .is_hint = true, .pool = "spot"},
                {.kind = BlockerKind::kOrder,
                 .message = "job 1 (first) comes first",
                 .needed = "the start of job 1",
                 .job_id = 1}};
  e.ahead = {1};
  e.ahead_count = 1;
  e.why_unknown = "nobody can tell";
  engine_.explanation = e;
  v1::ExplainJobRequest request;
  request.mutable_job()->set_name("second");
  v1::ExplainJobResponse response;
  ASSERT_OK(Call(&Stub::ExplainJob, request, response));
  EXPECT_EQ(response.summary().id(), 2u);
  const v1::Outlook& outlook = response.outlook();
  EXPECT_EQ(outlook.reason(), "waits behind job 1");
  ASSERT_EQ(outlook.blockers_size(), 2);
  EXPECT_EQ(outlook.blockers(0).kind(), v1::Blocker::GPU_TYPE);
  EXPECT_TRUE(outlook.blockers(0).is_hint());
  EXPECT_EQ(outlook.blockers(1).kind(), v1::Blocker::ORDER);
  EXPECT_EQ(outlook.blockers(1).job_id(), 1u);
  EXPECT_EQ(outlook.ahead(0).name(), "first");
  EXPECT_FALSE(outlook.has_start_ms());
  EXPECT_FALSE(outlook.has_run_seconds());
  EXPECT_EQ(outlook.why_unknown(), "nobody can tell");
}

TEST_F(JobServiceTest, ListsNewestFirstInPages) {
  for (uint64_t id = 1; id <= 5; ++id) {
    PutJob(MakeJob(id, absl::StrCat("job-", id), id == 3 ? JobState::kFailed : JobState::kRunning));
  }
  v1::ListJobsRequest request;
  request.set_page_size(2);
  std::vector<uint64_t> ids;
  do {
    v1::ListJobsResponse response;
    ASSERT_OK(Call(&Stub::ListJobs, request, response));
    EXPECT_LE(response.jobs_size(), 2);
    for (const v1::JobSummary& job : response.jobs()) ids.push_back(job.id());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(ids, ElementsAre(5, 4, 3, 2, 1));
  request = v1::ListJobsRequest();
  request.add_states(v1::FAILED);
  v1::ListJobsResponse failed;
  ASSERT_OK(Call(&Stub::ListJobs, request, failed));
  ASSERT_EQ(failed.jobs_size(), 1);
  EXPECT_EQ(failed.jobs(0).id(), 3u);
  request.set_page_token("x");
  EXPECT_THAT(Call(&Stub::ListJobs, request, failed), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(JobServiceTest, WhatIsForgottenIsNotFoundAndSaysWhy) {
  for (uint64_t id : {1, 9'000, 9'001}) {
    PutJob(MakeJob(id, absl::StrCat("job-", id), JobState::kFailed));
  }
  v1::ListJobsRequest list;
  v1::ListJobsResponse jobs;
  list.set_page_size(2);
  ASSERT_OK(Call(&Stub::ListJobs, list, jobs));
  ASSERT_EQ(jobs.jobs_size(), 2);
  EXPECT_EQ(jobs.jobs(1).id(), 9'000u);
  list.set_page_token(jobs.next_page_token());
  ASSERT_OK(Call(&Stub::ListJobs, list, jobs));
  ASSERT_EQ(jobs.jobs_size(), 1);
  EXPECT_EQ(jobs.jobs(0).id(), 1u);
  v1::GetJobRequest request;
  v1::GetJobResponse response;
  request.mutable_job()->set_id(8'000);
  EXPECT_THAT(Call(&Stub::GetJob, request, response),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("--forget-ended-after")));
  request.mutable_job()->set_id(9'002);
  EXPECT_THAT(Call(&Stub::GetJob, request, response),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("`muster ls`")));
}

TEST_F(JobServiceTest, ListsJobsThatHaveAllTheTags) {
  for (uint64_t id = 1; id <= 3; ++id) {
    auto job = MakeJob(id, "digits");
    auto settings = std::make_shared<JobSettings>(*job->settings);
    if (id >= 2) settings->tags["team"] = "vision";
    if (id == 3) settings->tags["try"] = "2";
    job->settings = settings;
    PutJob(job);
  }
  const auto ids = [this](const v1::ListJobsRequest& request) {
    v1::ListJobsResponse response;
    EXPECT_OK(Call(&Stub::ListJobs, request, response));
    std::vector<uint64_t> ids;
    for (const v1::JobSummary& job : response.jobs()) ids.push_back(job.id());
    return ids;
  };
  v1::ListJobsRequest request;
  (*request.mutable_tags())["team"] = "vision";
  EXPECT_THAT(ids(request), ElementsAre(3, 2));
  (*request.mutable_tags())["try"] = "2";
  EXPECT_THAT(ids(request), ElementsAre(3));
  (*request.mutable_tags())["try"] = "3";
  EXPECT_THAT(ids(request), ElementsAre());
  for (int i = 0; i < 16; ++i) (*request.mutable_tags())[absl::StrCat("tag-", i)] = "";
  v1::ListJobsResponse response;
  EXPECT_THAT(Call(&Stub::ListJobs, request, response),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("tags: at most 16")));
}

TEST_F(JobServiceTest, AStateIsNamedOnceAndAPageLooksAtSoManyJobs) {
  v1::ListJobsRequest request;
  for (int i = 0; i < 11; ++i) request.add_states(v1::RUNNING);
  v1::ListJobsResponse response;
  EXPECT_THAT(Call(&Stub::ListJobs, request, response),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("states")));
  engine_.Publish([](Snapshot& snapshot) {
    const auto pending = MakeJob(1, "waits", JobState::kPending);
    for (uint64_t id = 2; id <= 20'001; ++id) snapshot.jobs.Put(id, pending);
    snapshot.jobs.Put(1, MakeJob(1, "failed", JobState::kFailed));
  });
  request.clear_states();
  request.add_states(v1::FAILED);
  ASSERT_OK(Call(&Stub::ListJobs, request, response));
  EXPECT_EQ(response.jobs_size(), 0);
  ASSERT_EQ(response.next_page_token(), "1") << "20,000 were looked at";
  request.set_page_token(response.next_page_token());
  ASSERT_OK(Call(&Stub::ListJobs, request, response));
  ASSERT_EQ(response.jobs_size(), 1);
  EXPECT_EQ(response.jobs(0).name(), "failed");
  EXPECT_EQ(response.next_page_token(), "");
}

TEST_F(JobServiceTest, JobsThatHaveNotEndedAreFoundWithoutThoseThatHave) {
  engine_.Publish([](Snapshot& snapshot) {
    const auto ended = MakeJob(2, "ended", JobState::kFailed);
    for (uint64_t id = 4; id <= 50'000; ++id) snapshot.jobs.Put(id, ended);
    snapshot.jobs.Put(1, MakeJob(1, "runs"));
    snapshot.jobs.Put(2, MakeJob(2, "waits", JobState::kPending));
    snapshot.jobs.Put(3, MakeJob(3, "runs too"));
    snapshot.active_jobs =
        std::make_shared<const std::vector<uint64_t>>(std::vector<uint64_t>{1, 2, 3});
  });
  v1::ListJobsRequest request;
  request.add_states(v1::RUNNING);
  request.set_page_size(1);
  v1::ListJobsResponse response;
  ASSERT_OK(Call(&Stub::ListJobs, request, response));
  ASSERT_EQ(response.jobs_size(), 1);
  EXPECT_EQ(response.jobs(0).name(), "runs too");
  ASSERT_EQ(response.next_page_token(), "1");
  request.set_page_token(response.next_page_token());
  ASSERT_OK(Call(&Stub::ListJobs, request, response));
  ASSERT_EQ(response.jobs_size(), 1);
  EXPECT_EQ(response.jobs(0).name(), "runs");
  EXPECT_EQ(response.next_page_token(), "");
}

TEST_F(JobServiceTest, HistoryIsWhatEndedInASpan) {
  for (uint64_t id = 1; id <= 4; ++id) {
    auto job = MakeJob(id, "digits", id == 4 ? JobState::kRunning : JobState::kSucceeded);
    if (id != 4) job->finished = absl::FromUnixSeconds(100 * static_cast<int64_t>(id));
    auto attempt = std::make_shared<Attempt>();
    attempt->started = absl::FromUnixSeconds(0);
    attempt->ended = id == 4 ? absl::InfiniteFuture() : absl::FromUnixSeconds(50);
    attempt->ranks.push_back({.rank = 0, .worker = "w1", .slots = {0, 1}});
    job->current = attempt;
    PutJob(job);
  }
  v1::ListJobsRequest request;
  request.set_finished_from_ms(200'000);
  v1::ListJobsResponse response;
  ASSERT_OK(Call(&Stub::ListJobs, request, response));
  ASSERT_EQ(response.jobs_size(), 2);
  EXPECT_EQ(response.jobs(1).id(), 2u);
  EXPECT_EQ(response.jobs(1).ran_ms(), 50'000);
  EXPECT_EQ(response.jobs(1).slot_seconds(), 100);
  request.set_finished_before_ms(300'000);
  ASSERT_OK(Call(&Stub::ListJobs, request, response));
  ASSERT_EQ(response.jobs_size(), 1);
  EXPECT_EQ(response.jobs(0).id(), 2u);
}

TEST_F(JobServiceTest, AJobIsFoundByIdAndByName) {
  auto job = MakeJob(3, "digits");
  job->progress.step = 12;
  job->progress.latest = {{"loss", 0.5}, {"lr", 0.001}};
  auto first = std::make_shared<Attempt>();
  first->number = 1;
  first->last_step = 50;
  first->ended = absl::Now();
  auto second = std::make_shared<Attempt>();
  second->number = 2;
  second->first_step = 40;
  second->ranks.push_back({.rank = 0, .worker = "w1"});
  job->past.push_back(first);
  job->current = second;
  PutJob(job);
  v1::GetJobRequest request;
  v1::GetJobResponse response;
  request.mutable_job()->set_name("digits");
  ASSERT_OK(Call(&Stub::GetJob, request, response));
  EXPECT_EQ(response.summary().id(), 3u);
  EXPECT_EQ(response.summary().loss(), 0.5);
  EXPECT_EQ(response.summary().lr(), 0.001);
  EXPECT_FALSE(response.summary().has_samples_per_second());
  EXPECT_THAT(response.summary().workers(), ElementsAre("w1"));
  EXPECT_EQ(response.spec().name(), "digits");
  ASSERT_EQ(response.attempts_size(), 2);
  EXPECT_EQ(response.attempts(0).steps_lost(), 10);
  EXPECT_EQ(response.attempts(1).ranks(0).state(), "assigned");
}

TEST_F(JobServiceTest, WhatAJobIsToBeginFromIsReadAndWhatItBeganFromIsTold) {
  v1::SubmitRequest submit = GoodSubmit();
  submit.mutable_spec()->mutable_checkpoint()->set_resume_from("3@best");
  const auto first = MakeJob(3, "first");
  auto second = MakeJob(4, "second");
  JobSettings settings = *second->settings;
  settings.resume_from = {8, 7};
  second->settings = std::make_shared<const JobSettings>(std::move(settings));
  engine_.Publish([&](Snapshot& s) {
    for (uint64_t id : {7, 8}) {
      auto row = std::make_shared<Checkpoint>();
      row->id = id;
      row->job_id = 3;
      row->step = static_cast<int64_t>(id) * 100;
      s.checkpoints.Put(id, row);
    }
  });
  PutJob(first);
  PutJob(second);
  engine_.on_event = [](const Event& event) {
    const std::optional<ResumeRequest>& wish = std::get<SubmitJob>(event).resume;
    EXPECT_TRUE(wish.has_value() && wish->job_id == 3 &&
                wish->which == ResumeRequest::Which::kBest);
    EventResult result;
    result.job_id = 4;
    return result;
  };
  ASSERT_OK_AND_ASSIGN(v1::SubmitResponse response, Submit(submit));
  EXPECT_EQ(response.resume_from().job_id(), 3u);
  EXPECT_EQ(response.resume_from().job_name(), "first");
  EXPECT_THAT(response.resume_from().steps(), ElementsAre(800, 700));
  v1::GetJobRequest get;
  v1::GetJobResponse job;
  get.mutable_job()->set_id(4);
  ASSERT_OK(Call(&Stub::GetJob, get, job));
  EXPECT_THAT(job.resume_from().steps(), ElementsAre(800, 700));
  get.mutable_job()->set_id(3);
  ASSERT_OK(Call(&Stub::GetJob, get, job));
  EXPECT_FALSE(job.has_resume_from());
  Explanation explanation;
  explanation.resume_from = {7};
  engine_.explanation = explanation;
  submit.set_dry_run(true);
  ASSERT_OK_AND_ASSIGN(response, Submit(submit));
  EXPECT_THAT(response.resume_from().steps(), ElementsAre(700));
  submit.mutable_spec()->mutable_checkpoint()->set_resume_from("3@");
  EXPECT_THAT(Submit(submit), StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr("checkpoint.resume_from: must be a job")));
}

TEST_F(JobServiceTest, AnUnknownJobIsNamedAndNoneIsInvalid) {
  v1::GetJobRequest request;
  v1::GetJobResponse response;
  const auto get = &Stub::GetJob;
  EXPECT_THAT(Call(get, request, response), StatusIs(absl::StatusCode::kInvalidArgument));
  request.mutable_job()->set_id(99);
  EXPECT_THAT(Call(get, request, response),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("job 99")));
  request.mutable_job()->set_name("nobody");
  EXPECT_THAT(Call(get, request, response),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("`nobody`")));
}

TEST_F(JobServiceTest, CancelAnswersWithTheJobAsItIsThen) {
  PutJob(MakeJob(1, "digits"));
  engine_.on_event = [&](const Event& event) {
    EXPECT_EQ(std::get<controller::CancelJob>(event).job_id, 1u);
    PutJob(MakeJob(1, "digits", JobState::kStopping));
    EventResult result;
    result.job_id = 1;
    return result;
  };
  v1::CancelJobRequest request;
  v1::CancelJobResponse response;
  request.mutable_job()->set_id(1);
  ASSERT_OK(Call(&Stub::CancelJob, request, response));
  EXPECT_EQ(response.summary().state(), v1::STOPPING);
}

TEST_F(JobServiceTest, WatchSendsTheJobNowAfterChangesAndEndsWithIt) {
  PutJob(MakeJob(1, "digits"));
  ApiFixture::Context context;
  v1::WatchJobRequest request;
  request.mutable_job()->set_id(1);
  auto reader = stub_->WatchJob(&context, request);
  v1::WatchJobResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.summary().state(), v1::RUNNING);
  auto later = MakeJob(1, "digits");
  later->progress.step = 10;
  PutJob(later);
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.summary().step(), 10);
  PutJob(MakeJob(1, "digits", JobState::kSucceeded));
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.summary().state(), v1::SUCCEEDED);
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_OK(FromGrpc(reader->Finish()));
}

TEST_F(JobServiceTest, AWatchEndsWhenItsJobIsForgotten) {
  PutJob(MakeJob(1, "digits"));
  ApiFixture::Context context;
  v1::WatchJobRequest request;
  request.mutable_job()->set_id(1);
  auto reader = stub_->WatchJob(&context, request);
  v1::WatchJobResponse response;
  ASSERT_TRUE(reader->Read(&response));
  engine_.Publish([](Snapshot& s) { s.jobs.Erase(1); });
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_THAT(FromGrpc(reader->Finish()), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(JobServiceTest, AStoppingControllerEndsWatchesWithUnavailable) {
  PutJob(MakeJob(1, "digits"));
  ApiFixture::Context context;
  v1::WatchJobRequest request;
  request.mutable_job()->set_id(1);
  auto reader = stub_->WatchJob(&context, request);
  v1::WatchJobResponse response;
  ASSERT_TRUE(reader->Read(&response));
  jobs_->Stop();
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_THAT(FromGrpc(reader->Finish()), StatusIs(absl::StatusCode::kUnavailable));
  // A watch that comes later is refused likewise.
  ApiFixture::Context second;
  reader = stub_->WatchJob(&second, request);
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_THAT(FromGrpc(reader->Finish()), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(JobServiceTest, StreamsOfUnknownJobsEndWithNotFound) {
  ApiFixture::Context watch_context;
  v1::WatchJobRequest watch;
  watch.mutable_job()->set_id(9);
  v1::WatchJobResponse seen;
  auto watcher = stub_->WatchJob(&watch_context, watch);
  EXPECT_FALSE(watcher->Read(&seen));
  EXPECT_THAT(FromGrpc(watcher->Finish()), StatusIs(absl::StatusCode::kNotFound));
  ApiFixture::Context log_context;
  v1::StreamLogsRequest logs;
  logs.mutable_job()->set_id(9);
  v1::StreamLogsResponse text;
  auto reader = stub_->StreamLogs(&log_context, logs);
  EXPECT_FALSE(reader->Read(&text));
  EXPECT_THAT(FromGrpc(reader->Finish()), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(JobServiceTest, MetricsComeInPages) {
  PutJob(MakeJob(1, "digits"));
  MetricsBatch batch;
  for (uint64_t i = 1; i <= 5; ++i) {
    batch.points.push_back({{1, 1, 1, 0}, i, {{"loss", static_cast<int64_t>(i), 0, 1.0 / i}}});
  }
  Store(std::move(batch));
  v1::QueryMetricsRequest request;
  request.mutable_job()->set_id(1);
  request.set_page_size(2);
  std::vector<int64_t> steps;
  const auto query = &Stub::QueryMetrics;
  do {
    v1::QueryMetricsResponse response;
    ASSERT_OK(Call(query, request, response));
    for (const v1::MetricPoint& point : response.points()) steps.push_back(point.step());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(steps, ElementsAre(1, 2, 3, 4, 5));
  v1::QueryMetricsResponse response;
  request.set_page_token("nonsense");
  EXPECT_THAT(Call(query, request, response), StatusIs(absl::StatusCode::kInvalidArgument));
  request.clear_page_token();
  request.set_from_step(-1);
  EXPECT_THAT(Call(query, request, response), StatusIs(absl::StatusCode::kInvalidArgument));
  request.set_from_step(0);
  request.set_max_points(10001);
  EXPECT_THAT(Call(query, request, response), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(JobServiceTest, AVerdictIsWaitedFor) {
  auto checkpoint = std::make_shared<Checkpoint>();
  checkpoint->id = 5;
  checkpoint->state = CheckpointState::kCommitted;
  engine_.Publish([&](Snapshot& s) { s.checkpoints.Put(5, checkpoint); });
  engine_.on_event = [&](const Event& event) {
    EXPECT_EQ(std::get<RequestVerify>(event).checkpoint_id, 5u);
    auto reread = std::make_shared<Checkpoint>(*checkpoint);
    reread->rereads = 1;
    reread->state = CheckpointState::kVerified;
    engine_.Publish([&](Snapshot& s) { s.checkpoints.Put(5, reread); });
    return EventResult();
  };
  v1::VerifyCheckpointRequest request;
  v1::VerifyCheckpointResponse response;
  request.set_checkpoint_id(5);
  const auto verify = &Stub::VerifyCheckpoint;
  ASSERT_OK(Call(verify, request, response));
  EXPECT_EQ(response.checkpoint().state(), v1::VERIFIED);
  request.set_checkpoint_id(6);
  EXPECT_THAT(Call(verify, request, response),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("checkpoint 6")));
}

TEST_F(JobServiceTest, ACheckpointIsPinnedInTheCallersName) {
  auto job = MakeJob(1, "digits");
  job->checkpoints = {5};
  PutJob(job);
  auto checkpoint = std::make_shared<Checkpoint>();
  checkpoint->id = 5;
  checkpoint->job_id = 1;
  checkpoint->state = CheckpointState::kCommitted;
  engine_.Publish([&](Snapshot& s) { s.checkpoints.Put(5, checkpoint); });
  engine_.on_event = [&](const Event& event) {
    const auto& control = std::get<ControlCheckpoint>(event);
    EXPECT_EQ(control.verb, ControlCheckpoint::Verb::kPin);
    EXPECT_EQ(control.checkpoint_id, 5u);
    EXPECT_TRUE(control.force);
    auto pinned = std::make_shared<Checkpoint>(*checkpoint);
    pinned->pinned_by = control.actor;
    engine_.Publish([&](Snapshot& s) { s.checkpoints.Put(5, pinned); });
    return EventResult();
  };
  v1::ControlCheckpointRequest request;
  v1::ControlCheckpointResponse response;
  request.set_checkpoint_id(5);
  request.set_user("ann");
  request.set_force(true);
  const auto control = &Stub::ControlCheckpoint;
  EXPECT_THAT(Call(control, request, response), StatusIs(absl::StatusCode::kInvalidArgument));
  request.set_verb(v1::ControlCheckpointRequest::PIN);
  ASSERT_OK(Call(control, request, response));
  EXPECT_EQ(response.checkpoint().pinned_by(), "user:ann");
  request.set_checkpoint_id(6);
  EXPECT_THAT(Call(control, request, response),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("checkpoint 6")));
}

TEST_F(JobServiceTest, ACallersDeadlineEndsTheWaitForAVerdict) {
  auto checkpoint = std::make_shared<Checkpoint>();
  checkpoint->id = 5;
  engine_.Publish([&](Snapshot& s) { s.checkpoints.Put(5, checkpoint); });
  ApiFixture::Context context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  v1::VerifyCheckpointRequest request;
  v1::VerifyCheckpointResponse response;
  request.set_checkpoint_id(5);
  EXPECT_THAT(FromGrpc(stub_->VerifyCheckpoint(&context, request, &response)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(JobServiceTest, CheckpointsAndWorkersAreListed) {
  auto job = MakeJob(1, "digits");
  job->checkpoints = {1, 2, 3};
  PutJob(job);
  engine_.Publish([&](Snapshot& s) {
    for (uint64_t id : {1, 2, 3}) {
      auto checkpoint = std::make_shared<Checkpoint>();
      checkpoint->id = id;
      // The last one was offered and refused: it was never there.
      if (id == 3) checkpoint->state = CheckpointState::kDeleted;
      checkpoint->metrics = {{"validation_accuracy", 0.9}};
      s.checkpoints.Put(id, checkpoint);
    }
    auto worker = std::make_shared<Worker>();
    worker->id = 1;
    worker->name = "w1";
    worker->facts.slots = {{0, SlotKind::kCpu, "cpu"}, {1, SlotKind::kCpu, "cpu"}};
    worker->pulse.holders[1] = {1, 1, 0};
    s.workers.Put(1, worker);
  });
  v1::ListCheckpointsRequest request;
  v1::ListCheckpointsResponse checkpoints;
  request.mutable_job()->set_id(1);
  ASSERT_OK(Call(&Stub::ListCheckpoints, request, checkpoints));
  ASSERT_EQ(checkpoints.checkpoints_size(), 2);
  EXPECT_EQ(checkpoints.checkpoints(0).id(), 2u);
  EXPECT_EQ(checkpoints.checkpoints(0).validation_accuracy(), 0.9);
  v1::GetCheckpointRequest by_id;
  v1::GetCheckpointResponse one;
  by_id.set_checkpoint_id(1);
  ASSERT_OK(Call(&Stub::GetCheckpoint, by_id, one));
  EXPECT_EQ(one.checkpoint().id(), 1u);
  EXPECT_EQ(one.checkpoint().validation_accuracy(), 0.9);
  for (const uint64_t id : {0, 3, 4}) {
    by_id.set_checkpoint_id(id);
    EXPECT_THAT(Call(&Stub::GetCheckpoint, by_id, one),
                StatusIs(absl::StatusCode::kNotFound, HasSubstr(absl::StrCat("checkpoint ", id))));
  }
  v1::ListWorkersResponse workers;
  ASSERT_OK(Call(&Stub::ListWorkers, v1::ListWorkersRequest(), workers));
  ASSERT_EQ(workers.workers_size(), 1);
  EXPECT_EQ(workers.workers(0).slots_used(), 1u);
  EXPECT_THAT(workers.workers(0).job_ids(), ElementsAre(1));
  ASSERT_EQ(workers.workers(0).holders_size(), 1);
  EXPECT_EQ(workers.workers(0).holders(0).job_id(), 1u);
}

// Whatever the agent could say of it, whoever puts its marker back needs that.
TEST_F(JobServiceTest, OfARootThatAWorkerDoesNotSeeTheIdentityIsShown) {
  engine_.Publish([&](Snapshot& s) {
    auto worker = std::make_shared<Worker>();
    worker->id = 1;
    worker->name = "w1";
    RootViews seen;
    seen["/away"].message = "no answer within 8s";
    seen["/new"].message = "no space left";
    worker->pulse.roots = std::make_shared<const RootViews>(seen);
    std::vector<RootToWatch> asked(2);
    asked[0].path = "/away";
    asked[0].identity = "abc1";
    asked[1].path = "/new";
    asked[1].claim = "abc2";
    worker->pulse.watches = std::make_shared<const std::vector<RootToWatch>>(asked);
    s.workers.Put(1, worker);
  });
  v1::ListWorkersResponse workers;
  ASSERT_OK(Call(&Stub::ListWorkers, v1::ListWorkersRequest(), workers));
  ASSERT_EQ(workers.workers_size(), 1);
  ASSERT_EQ(workers.workers(0).unseen_roots_size(), 2);
  EXPECT_EQ(workers.workers(0).unseen_roots(0).message(), "no answer within 8s");
  EXPECT_EQ(workers.workers(0).unseen_roots(0).identity(), "abc1");
  EXPECT_EQ(workers.workers(0).unseen_roots(1).identity(), "") << "nobody has seen it yet";
}

TEST_F(JobServiceTest, NoAnswerIsLargerThanItsPage) {
  constexpr size_t kMost = 2 << 20;
  engine_.Publish([&](Snapshot& s) {
    auto job = MakeJob(1, "digits");
    auto attempt = std::make_shared<Attempt>();
    attempt->cause = std::string(4000, 'c');
    for (uint32_t i = 0; i < 300; ++i) {
      attempt->ranks.push_back({.rank = i, .worker = std::to_string(i) + std::string(50, 'w')});
    }
    for (uint64_t id = 1; id <= 3000; ++id) {
      auto checkpoint = std::make_shared<Checkpoint>();
      checkpoint->id = id;
      checkpoint->path = std::string(1000, 'p');
      s.checkpoints.Put(id, checkpoint);
      job->checkpoints.push_back(id);
      auto event = std::make_shared<JobEvent>();
      event->sequence = id;
      event->message = std::string(1000, 'e');
      job->events.push_back(event);
      auto past = std::make_shared<Attempt>(*attempt);
      past->number = static_cast<uint32_t>(id);
      if (id <= 200) job->past.push_back(past);
      auto worker = std::make_shared<Worker>();
      worker->id = id;
      worker->name = absl::StrCat("w", id);
      worker->facts.labels = {{"l", std::string(1000, 'l')}};
      s.workers.Put(id, worker);
      auto many = MakeJob(id + 1, "many");
      many->message = std::string(4000, 'm');
      s.jobs.Put(id + 1, many);
    }
    job->current = attempt;
    s.jobs.Put(1, job);
  });
  v1::GetJobRequest get;
  get.mutable_job()->set_id(1);
  v1::GetJobResponse one;
  ASSERT_OK(Call(&Stub::GetJob, get, one));
  EXPECT_LE(one.ByteSizeLong(), kMost);
  EXPECT_TRUE(one.shortened());
  EXPECT_EQ(one.events().rbegin()->sequence(), 3000u) << "the newest ones";
  EXPECT_EQ(one.checkpoints(0).id(), 3000u);
  EXPECT_EQ(one.attempts().rbegin()->number(), 0u) << "the current one";
  EXPECT_EQ(one.summary().workers_size(), 256);
  size_t pages = 0;
  const auto all = [&](auto method, auto request, auto response, auto rows) {
    std::set<std::string> seen;
    size_t count = 0;
    do {
      EXPECT_OK(Call(method, request, response));
      EXPECT_LE(response.ByteSizeLong(), kMost + 100);
      for (const auto& row : rows(response)) {
        seen.insert(row.SerializeAsString());
        ++count;
      }
      request.set_page_token(response.next_page_token());
      ++pages;
    } while (!request.page_token().empty());
    EXPECT_EQ(seen.size(), count) << "each once";
    return count;
  };
  v1::ListCheckpointsRequest list;
  list.mutable_job()->set_id(1);
  EXPECT_EQ(all(&Stub::ListCheckpoints, list, v1::ListCheckpointsResponse(),
                [](const auto& r) { return r.checkpoints(); }),
            3000u);
  EXPECT_EQ(pages, 2u);
  EXPECT_EQ(all(&Stub::ListWorkers, v1::ListWorkersRequest(), v1::ListWorkersResponse(),
                [](const auto& r) { return r.workers(); }),
            3000u);
  v1::ListJobsRequest jobs;
  jobs.set_page_size(1000);
  EXPECT_EQ(
      all(&Stub::ListJobs, jobs, v1::ListJobsResponse(), [](const auto& r) { return r.jobs(); }),
      3001u);
  list.set_page_token("x");
  v1::ListCheckpointsResponse none;
  EXPECT_THAT(Call(&Stub::ListCheckpoints, list, none),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page_token")));
}

TEST_F(JobServiceTest, GoodputAddsUpLedgersToTheNanosecond) {
  auto one = MakeJob(1, "a");
  one->ledger.until = absl::UnixEpoch();
  one->ledger.times[TimeLabel::kProductive] = absl::Seconds(3) + absl::Nanoseconds(999'999'999);
  one->ledger.times[TimeLabel::kDrain] = absl::Nanoseconds(2);
  auto two = MakeJob(2, "b");
  two->ledger = one->ledger;
  two->state = JobState::kSucceeded;
  two->finished = absl::FromUnixSeconds(100);
  one->state = JobState::kSuspended;
  PutJob(one);
  PutJob(two);
  v1::GetGoodputResponse all;
  ASSERT_OK(Call(&Stub::GetGoodput, v1::GetGoodputRequest(), all));
  EXPECT_EQ(all.job_count(), 2u);
  ASSERT_EQ(all.jobs_size(), 2);
  EXPECT_EQ(all.jobs(0).id(), 2u) << "newest first";
  EXPECT_EQ(all.total().held().seconds(), 8u);
  EXPECT_EQ(all.total().held().nanos(), 2u);
  EXPECT_EQ(all.total().productive().seconds(), 7u);
  EXPECT_EQ(all.total().productive().nanos(), 999'999'998u);
  EXPECT_EQ(all.total().drain().nanos(), 4u);
  EXPECT_NEAR(all.total().goodput(), 1, 1e-8);

  v1::GetGoodputRequest request;
  request.set_since_ms(200'000);
  v1::GetGoodputResponse late;
  ASSERT_OK(Call(&Stub::GetGoodput, request, late));
  EXPECT_EQ(late.job_count(), 1u) << "job 2 had ended by then";
  request.mutable_job()->set_id(2);
  v1::GetGoodputResponse single;
  ASSERT_OK(Call(&Stub::GetGoodput, request, single));
  ASSERT_EQ(single.jobs_size(), 1);
  EXPECT_EQ(single.jobs(0).id(), 2u);
  request.mutable_job()->set_id(99);
  EXPECT_THAT(Call(&Stub::GetGoodput, request, single), StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace muster::controller
