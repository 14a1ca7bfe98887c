// Jobs that are in history.db and no longer in the engine's snapshot: people meet them as before.
#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/version.h"
#include "tests/controller/api/api_fixture.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Stub = v1::JobService::Stub;

class ArchivedJobsTest : public ApiFixture {
 protected:
  std::shared_ptr<Job> Ended(uint64_t id, const std::string& name) {
    auto job = MakeJob(id, name, JobState::kSucceeded);
    job->owner = "ada";
    job->finished = absl::FromUnixSeconds(100 * static_cast<int64_t>(id));
    job->ledger.times[TimeLabel::kProductive] = absl::Seconds(10);
    job->ledger.until = job->finished;
    auto event = std::make_shared<JobEvent>();
    event->sequence = id;
    event->job_id = id;
    event->to = JobState::kSucceeded;
    event->message = name;
    job->events.push_back(std::move(event));
    return job;
  }
  void Put(const std::shared_ptr<Job>& job) {
    engine_.Publish([&](Snapshot& s) {
      for (const auto& event : job->events) s.events.Put(event->sequence, event);
      s.last_event = std::max(s.last_event, job->id);
      s.jobs.Put(job->id, job);
      s.by_name.Put(job->settings->name, {.newest = job->id, .count = 1});
    });
  }
  void Archive(const std::shared_ptr<Job>& job, std::vector<uint64_t> checkpoints = {}) {
    ArchivedJob archived{.job = job, .checkpoints = {}};
    for (uint64_t id : checkpoints) {
      auto row = std::make_shared<Checkpoint>();
      row->id = id;
      row->job_id = job->id;
      row->step = static_cast<int64_t>(id) * 100;
      row->state = CheckpointState::kVerified;
      row->path = "/c";
      job->checkpoints.push_back(id);
      archived.checkpoints.push_back(std::move(row));
    }
    ASSERT_OK(engine_.history().Put({archived}));
    engine_.Publish([&](Snapshot& s) {
      s.jobs.SkipTo(job->id);
      s.last_event = std::max(s.last_event, job->id);
    });
  }
  std::vector<uint64_t> List(v1::ListJobsRequest request) {
    std::vector<uint64_t> ids;
    v1::ListJobsResponse response;
    do {
      request.set_page_token(response.next_page_token());
      EXPECT_OK(Call(&Stub::ListJobs, request, response));
      for (const v1::JobSummary& job : response.jobs()) ids.push_back(job.id());
    } while (!response.next_page_token().empty());
    return ids;
  }
  absl::StatusOr<v1::GetJobResponse> Get(const v1::JobRef& job) {
    v1::GetJobRequest request;
    *request.mutable_job() = job;
    v1::GetJobResponse response;
    if (absl::Status status = Call(&Stub::GetJob, request, response); !status.ok()) return status;
    return response;
  }
  static v1::JobRef Id(uint64_t id) {
    v1::JobRef job;
    job.set_id(id);
    return job;
  }
  static v1::JobRef Name(const std::string& name) {
    v1::JobRef job;
    job.set_name(name);
    return job;
  }
  // Those that the last event restores.
  std::vector<uint64_t> Restored() {
    std::vector<uint64_t> ids;
    const auto restored = engine_.restored();
    if (restored.empty()) return ids;
    for (const auto& list : restored.back()) {
      for (const ArchivedJob& archived : list->jobs) ids.push_back(archived.job->id);
    }
    return ids;
  }
  void SubmitAll(const v1::SubmitJobsRequest& message) {
    ApiFixture::Context context;
    auto stream = stub_->SubmitJobs(&context);
    ASSERT_TRUE(stream->Write(message));
    v1::SubmitJobsResponse response;
    ASSERT_TRUE(stream->Read(&response));
    stream->WritesDone();
    ASSERT_OK(FromGrpc(stream->Finish()));
  }
  absl::Status Requeue(uint64_t id) {
    v1::ControlJobRequest request;
    *request.mutable_job() = Id(id);
    request.set_verb(v1::ControlJobRequest::REQUEUE);
    v1::ControlJobResponse response;
    return Call(&Stub::ControlJob, request, response);
  }
  static void Settle(Job& job, const std::function<void(JobSettings&)>& edit) {
    auto settings = std::make_shared<JobSettings>(*job.settings);
    edit(*settings);
    job.settings = std::move(settings);
  }
  // A submit of a command of that name.
  static v1::SubmitRequest SubmitOf(const std::string& name) {
    v1::SubmitRequest submit;
    v1::JobSpec& spec = *submit.mutable_spec();
    spec.set_name(name);
    spec.mutable_command()->add_argv("true");
    spec.mutable_command()->set_workdir("/");
    submit.set_owner("ada");
    submit.set_protocol_version(kProtocolVersion);
    return submit;
  }
};

TEST_F(ArchivedJobsTest, AreListedAmongTheOthers) {
  for (uint64_t id = 1; id <= 9; ++id) {
    const auto job = Ended(id, "digits");
    if (id % 3 == 0) {
      Put(job);
    } else {
      Archive(job);
    }
  }
  v1::ListJobsRequest request;
  EXPECT_THAT(List(request), ElementsAre(9, 8, 7, 6, 5, 4, 3, 2, 1));
  request.set_page_size(2);
  EXPECT_THAT(List(request), ElementsAre(9, 8, 7, 6, 5, 4, 3, 2, 1));
  request.set_finished_from_ms(400'000);
  request.set_finished_before_ms(700'000);
  EXPECT_THAT(List(request), ElementsAre(6, 5, 4));
  request.add_states(v1::FAILED);
  EXPECT_THAT(List(request), ElementsAre());
  v1::ListJobsRequest older;
  older.set_archived_only(true);
  older.set_page_size(2);
  EXPECT_THAT(List(older), ElementsAre(8, 7, 5, 4, 2, 1));
  // One that was restored is as it is in memory.
  Put(Ended(4, "again"));
  EXPECT_THAT(List({}), ElementsAre(9, 8, 7, 6, 5, 4, 3, 2, 1));
  EXPECT_THAT(List(older), ElementsAre(8, 7, 5, 2, 1));
}

TEST_F(ArchivedJobsTest, AreShownWithAllThatWasKnown) {
  Archive(Ended(1, "source"), {3, 4});
  const auto job = Ended(2, "digits");
  Settle(*job, [](JobSettings& settings) { settings.resume_from = {4}; });
  Archive(job, {5});
  Put(Ended(3, "digits too"));
  ASSERT_OK_AND_ASSIGN(v1::GetJobResponse shown, Get(Id(2)));
  EXPECT_EQ(shown.summary().name(), "digits");
  EXPECT_EQ(shown.events(0).message(), "digits");
  EXPECT_EQ(shown.checkpoints(0).id(), 5u);
  EXPECT_EQ(shown.resume_from().job_name(), "source");
  EXPECT_THAT(shown.resume_from().steps(), ElementsAre(400));
  Archive(Ended(5, "digits"));
  ASSERT_OK_AND_ASSIGN(shown, Get(Name("digits")));
  EXPECT_EQ(shown.summary().id(), 5u) << "the newest of the name";
  Put(Ended(6, "digits"));
  ASSERT_OK_AND_ASSIGN(shown, Get(Name("digits")));
  EXPECT_EQ(shown.summary().id(), 6u);
  EXPECT_THAT(Get(Id(4)), StatusIs(absl::StatusCode::kNotFound, HasSubstr("was forgotten")));
  v1::GetCheckpointRequest request;
  v1::GetCheckpointResponse checkpoint;
  request.set_checkpoint_id(3);
  ASSERT_OK(Call(&Stub::GetCheckpoint, request, checkpoint));
  EXPECT_EQ(checkpoint.checkpoint().step(), 300);
}

TEST_F(ArchivedJobsTest, AreRestoredForWhatChangesThem) {
  for (uint32_t index = 0; index < 3; ++index) {
    const auto task = Ended(4 + index, "sweep");
    task->array = {.array_id = 4, .index = index};
    Archive(task);
  }
  Archive(Ended(7, "other"));
  v1::ControlJobRequest request;
  request.mutable_job()->mutable_task()->set_array_id(4);
  request.mutable_job()->mutable_task()->set_index(1);
  request.set_verb(v1::ControlJobRequest::REQUEUE);
  v1::ControlJobResponse response;
  ASSERT_OK(Call(&Stub::ControlJob, request, response));
  const std::vector<Event> events = engine_.events();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_THAT(Restored(), ElementsAre(4, 5, 6)) << "an array comes back whole, and nothing else";
  EXPECT_EQ(std::get<ControlJob>(events[0]).job_id, 5u);
}

TEST_F(ArchivedJobsTest, WhatARequeuedJobWaitedForIsRestoredToo) {
  for (uint32_t index = 0; index < 2; ++index) {
    const auto task = Ended(1 + index, "sweep");
    task->array = {.array_id = 1, .index = index};
    Archive(task);
  }
  Archive(Ended(3, "other"));
  const auto job = Ended(4, "digits");
  Settle(*job, [](JobSettings& settings) { settings.scheduling.after = {{.job_id = 1}}; });
  Put(job);
  ASSERT_OK(Requeue(4));
  EXPECT_THAT(Restored(), ElementsAre(1, 2));
  EXPECT_THAT(engine_.restored().back().back()->needed, ElementsAre(4)) << "it is here";
}

TEST_F(ArchivedJobsTest, AChainComesBackWithWhatItsJobsBeganFrom) {
  Archive(Ended(1, "first"), {3});
  const auto second = Ended(2, "second");
  Settle(*second, [](JobSettings& settings) { settings.resume_from = {3}; });
  Archive(second, {5});
  const auto third = Ended(4, "third");
  Settle(*third, [](JobSettings& settings) { settings.resume_from = {5}; });
  Archive(third);
  ASSERT_OK(Requeue(4));
  EXPECT_THAT(Restored(), ElementsAre(1, 2, 4));
}

TEST_F(ArchivedJobsTest, WhatAJobBeganFromMayBeForgotten) {
  const auto job = Ended(2, "digits");
  Settle(*job, [](JobSettings& settings) { settings.resume_from = {4}; });
  Archive(job);
  ASSERT_OK_AND_ASSIGN(const v1::GetJobResponse shown, Get(Id(2)));
  EXPECT_EQ(shown.summary().name(), "digits");
  EXPECT_FALSE(shown.has_resume_from());
}

TEST_F(ArchivedJobsTest, TheNewestWithACheckpointIsFoundWhereverItIs) {
  Archive(Ended(1, "digits"), {3});
  Archive(Ended(2, "digits"), {4});
  v1::SubmitRequest submit = SubmitOf("digits");
  submit.mutable_spec()->mutable_checkpoint()->set_resume_from("auto");
  v1::SubmitResponse response;
  ASSERT_OK(Call(&Stub::Submit, submit, response));
  EXPECT_THAT(Restored(), ElementsAre(2));
  // A newer one is in memory; its only checkpoint is broken, and then it is whole.
  const auto newer = Ended(3, "digits");
  newer->checkpoints = {6};
  const auto put = [&](CheckpointState state) {
    engine_.Publish([&](Snapshot& s) {
      auto row = std::make_shared<Checkpoint>();
      row->id = 6;
      row->job_id = 3;
      row->path = "/c";
      row->state = state;
      s.checkpoints.Put(6, row);
      s.jobs.Put(3, newer);
      s.resumable_jobs.Put(RunTimeKey(*newer->settings),
                           std::make_shared<const std::vector<uint64_t>>(std::vector<uint64_t>{3}));
    });
  };
  put(CheckpointState::kCorrupt);
  ASSERT_OK(Call(&Stub::Submit, submit, response));
  EXPECT_THAT(Restored(), ElementsAre(2));
  put(CheckpointState::kVerified);
  ASSERT_OK(Call(&Stub::Submit, submit, response));
  EXPECT_THAT(Restored(), ElementsAre());
  // The rows of one that was restored are stale.
  Put(Ended(2, "digits"));
  put(CheckpointState::kCorrupt);
  ASSERT_OK(Call(&Stub::Submit, submit, response));
  EXPECT_THAT(Restored(), ElementsAre(1));
}

TEST_F(ArchivedJobsTest, AreRestoredForASubmitThatRefersToThem) {
  const auto same = Ended(1, "digits");
  same->idempotency_key = "key";
  Archive(same);
  Archive(Ended(2, "source"), {8});
  Archive(Ended(3, "before"));
  v1::SubmitRequest submit = SubmitOf("digits");
  v1::JobSpec& spec = *submit.mutable_spec();
  submit.set_idempotency_key("other");
  v1::SubmitResponse response;
  ASSERT_OK(Call(&Stub::Submit, submit, response));
  EXPECT_THAT(Restored(), ElementsAre());
  submit.set_idempotency_key("key");
  ASSERT_OK(Call(&Stub::Submit, submit, response));
  EXPECT_THAT(Restored(), ElementsAre(1));
  submit.set_idempotency_key("");
  spec.mutable_checkpoint()->set_resume_from("source");
  ASSERT_OK(Call(&Stub::Submit, submit, response));
  EXPECT_THAT(Restored(), ElementsAre(2));
  spec.clear_checkpoint();
  spec.mutable_scheduling()->add_after("3");
  ASSERT_OK(Call(&Stub::Submit, submit, response));
  EXPECT_THAT(Restored(), ElementsAre(3));
}

TEST_F(ArchivedJobsTest, EachSubmitOfAMessageBringsTheSaverThatItBeginsFrom) {
  Archive(Ended(1, "digits"), {3});
  v1::SubmitJobsRequest message;
  for (int i = 0; i < 2; ++i) {
    v1::SubmitRequest& submit = *message.add_submits() = SubmitOf("digits");
    submit.mutable_spec()->mutable_checkpoint()->set_resume_from("auto");
  }
  SubmitAll(message);
  const std::vector<RestoreList> restored = engine_.restored();
  ASSERT_THAT(restored, SizeIs(2));
  EXPECT_THAT(restored[0], SizeIs(1));
  EXPECT_EQ(restored[1], restored[0]);
}

TEST_F(ArchivedJobsTest, ANameMeansTheNewestWhereverItIs) {
  Put(Ended(1, "digits"));
  Archive(Ended(2, "digits"));
  ASSERT_OK_AND_ASSIGN(const v1::GetJobResponse shown, Get(Name("digits")));
  EXPECT_EQ(shown.summary().id(), 2u);
}

// What one submit of a message needs concerns no other one; what two need is read once.
TEST_F(ArchivedJobsTest, EachSubmitOfAMessageRestoresItsOwn) {
  for (uint32_t index = 0; index < 4; ++index) {
    const auto task = Ended(1 + index, "sweep");
    task->array = {.array_id = 1, .index = index};
    Archive(task, {100 + index});
  }
  Archive(Ended(5, "before"));
  Put(Ended(6, "here"));
  v1::SubmitJobsRequest message;
  const auto add = [&](const char* resume_from, const char* after) {
    v1::SubmitRequest& submit = *message.add_submits() = SubmitOf("digits");
    if (*resume_from != 0)
      submit.mutable_spec()->mutable_checkpoint()->set_resume_from(resume_from);
    if (*after != 0) submit.mutable_spec()->mutable_scheduling()->add_after(after);
  };
  add("1_1", "");
  add("", "5");
  add("", "6");
  add("1_3", "");
  add("", "");
  SubmitAll(message);
  const std::vector<RestoreList> restored = engine_.restored();
  ASSERT_THAT(restored, SizeIs(5));
  ASSERT_THAT(restored[0], SizeIs(1));
  EXPECT_THAT(restored[0][0]->jobs, SizeIs(4));
  ASSERT_THAT(restored[1], SizeIs(1));
  EXPECT_THAT(restored[1][0]->jobs, SizeIs(1));
  EXPECT_THAT(restored[1][0]->needed, ElementsAre());
  ASSERT_THAT(restored[2], SizeIs(1));
  EXPECT_THAT(restored[2][0]->jobs, ElementsAre());
  EXPECT_THAT(restored[2][0]->needed, ElementsAre(6));
  ASSERT_THAT(restored[3], SizeIs(1));
  EXPECT_EQ(restored[3][0], restored[0][0]);
  EXPECT_THAT(restored[4], ElementsAre());
}

TEST_F(ArchivedJobsTest, AreInTheEventsOfAllJobs) {
  Archive(Ended(1, "a"));
  Put(Ended(2, "b"));
  Archive(Ended(3, "c"));
  Archive(Ended(4, "d"));
  Put(Ended(6, "f"));
  const auto read = [&](const v1::StreamEventsRequest& request) {
    ApiFixture::Context context;
    auto reader = stub_->StreamEvents(&context, request);
    std::string messages;
    v1::StreamEventsResponse response;
    while (reader->Read(&response)) {
      for (const v1::JobEvent& event : response.events()) messages += event.message();
    }
    EXPECT_OK(FromGrpc(reader->Finish()));
    return messages;
  };
  v1::StreamEventsRequest request;
  EXPECT_EQ(read(request), "abcdf");
  request.set_tail(3);
  EXPECT_EQ(read(request), "cdf");
  request.set_tail(1'000'000);
  {
    ApiFixture::Context context;
    v1::StreamEventsResponse response;
    auto reader = stub_->StreamEvents(&context, request);
    EXPECT_FALSE(reader->Read(&response));
    EXPECT_THAT(FromGrpc(reader->Finish()), StatusIs(absl::StatusCode::kInvalidArgument));
  }
  request.set_tail(0);
  request.set_after_sequence(2);
  EXPECT_EQ(read(request), "cdf");
  request = {};
  request.mutable_job()->set_id(4);
  request.set_follow(true);
  EXPECT_EQ(read(request), "d") << "nothing more comes of it";
}

TEST_F(ArchivedJobsTest, CountInTheGoodput) {
  Archive(Ended(1, "a"));
  Put(Ended(2, "b"));
  Archive(Ended(3, "c"));
  v1::GetGoodputRequest request;
  v1::GetGoodputResponse response;
  ASSERT_OK(Call(&Stub::GetGoodput, request, response));
  EXPECT_EQ(response.job_count(), 3u);
  EXPECT_EQ(response.total().productive().seconds(), 30u);
  request.set_since_ms(150'000);
  ASSERT_OK(Call(&Stub::GetGoodput, request, response));
  EXPECT_EQ(response.job_count(), 2u);
  *request.mutable_job() = Id(1);
  ASSERT_OK(Call(&Stub::GetGoodput, request, response));
  EXPECT_EQ(response.job_count(), 1u);
}

TEST_F(ArchivedJobsTest, AWatchTellsTheEnd) {
  Archive(Ended(1, "a"));
  v1::WatchJobRequest request;
  *request.mutable_job() = Id(1);
  ApiFixture::Context context;
  auto reader = stub_->WatchJob(&context, request);
  v1::WatchJobResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.summary().state(), v1::SUCCEEDED);
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_OK(FromGrpc(reader->Finish()));
}

}  // namespace
}  // namespace muster::controller
