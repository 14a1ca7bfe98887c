// The calls that change jobs, workers and projects: what they check, post and answer.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "controller/api/job_service.h"
#include "tests/controller/api/api_fixture.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::StatusIs;
using ::testing::HasSubstr;
using Stub = v1::JobService::Stub;

class JobControlTest : public ApiFixture {
 protected:
  void SetUp() override {
    ApiFixture::SetUp();
    for (uint64_t id = 1; id <= 3; ++id) {
      auto job = MakeJob(id, "sweep", JobState::kPending);
      auto settings = std::make_shared<JobSettings>(*job->settings);
      settings->spec =
          R"({"name": "sweep", "project": "default", "ranks": {"min": 1, "max": 1},)"
          R"( "train": {"model": {"mlp": {"hidden": [8]}}, "data": {"synthetic": {"samples": 64,)"
          R"( "shape": [4], "classes": 10}}, "batch_size": 8, "steps": 10, "optimizer":)"
          R"( {"name": "sgd", "lr": 0.1, "momentum": 0.9}, "threads_per_rank": 1,)"
          R"( "report_every_steps": 10}, "checkpoint": {"keep_last": 3},)"
          R"( "restart": {"progress_timeout": "10m", "controller_lost_timeout": "1h"}})";
      job->settings = settings;
      job->array = {.array_id = 1, .index = static_cast<uint32_t>(id + 4), .at_a_time = 2};
      engine_.Publish([&](Snapshot& s) { s.jobs.Put(id, job); });
    }
    engine_.on_event = [](const Event& event) {
      EventResult result;
      if (const auto* control = std::get_if<controller::ControlJob>(&event)) {
        result.job_id = control->job_id;
      }
      return result;
    };
  }
  absl::Status Control(const v1::ControlJobRequest& request) {
    return Call(&Stub::ControlJob, request, answer_);
  }
  absl::Status Update(const v1::UpdateJobRequest& request) {
    v1::UpdateJobResponse response;
    return Call(&Stub::UpdateJob, request, response);
  }

  v1::ControlJobResponse answer_;
};

v1::ControlJobRequest Hold(uint64_t id) {
  v1::ControlJobRequest request;
  request.mutable_job()->set_id(id);
  request.set_verb(v1::ControlJobRequest::HOLD);
  request.set_user("ada");
  return request;
}

TEST_F(JobControlTest, TheSpecThatIsShownHasWhatWasUpdatedSince) {
  engine_.Publish([](Snapshot& s) {
    auto job = std::make_shared<Job>(*s.FindJob(1));
    auto settings = std::make_shared<JobSettings>(*job->settings);
    settings->priority = 1500;
    settings->needs.pools = {{"spot", {}}, {"ondemand", absl::Minutes(10)}};
    settings->scheduling.max_run_time = absl::Hours(2);
    settings->scheduling.begin = absl::FromUnixSeconds(1'700'000'000);
    job->settings = settings;
    s.jobs.Put(1, job);
  });
  v1::GetJobRequest request;
  request.mutable_job()->set_id(1);
  v1::GetJobResponse response;
  ASSERT_OK(Call(&Stub::GetJob, request, response));
  const v1::Scheduling& scheduling = response.spec().scheduling();
  EXPECT_EQ(scheduling.priority_class(), v1::PRIORITY_CLASS_HIGH);
  EXPECT_EQ(scheduling.priority(), 500);
  EXPECT_EQ(scheduling.max_run_time().seconds(), 7200);
  EXPECT_EQ(scheduling.begin(), "2023-11-14T22:13:20Z");
  EXPECT_FALSE(scheduling.has_deadline());
  ASSERT_EQ(response.spec().placement().pools_size(), 2);
  EXPECT_EQ(response.spec().placement().pools(1), "ondemand after 10m");
  EXPECT_EQ(response.spec().train().steps(), 10u) << "the rest is as it was";
}

TEST_F(JobControlTest, AVerbBecomesAnEventInTheUsersName) {
  v1::ControlJobRequest request = Hold(2);
  request.set_verb(v1::ControlJobRequest::REQUEUE);
  request.set_request_id("r1");
  request.set_whole_array(true);
  ASSERT_OK(Control(request));
  const auto event = std::get<controller::ControlJob>(engine_.events().back());
  EXPECT_EQ(event.verb, controller::ControlJob::Verb::kRequeue);
  EXPECT_EQ(event.job_id, 2u);
  EXPECT_EQ(event.actor, "user:ada");
  EXPECT_EQ(event.request_id, "r1");
  EXPECT_TRUE(event.whole_array);
  EXPECT_EQ(answer_.summary().id(), 2u);
  EXPECT_EQ(answer_.summary().array_index(), 6u);
  EXPECT_EQ(answer_.jobs(), 1u);
}

TEST_F(JobControlTest, WhoAsksIsRecordedForACancelToo) {
  v1::CancelJobRequest request;
  request.mutable_job()->set_id(1);
  request.set_user("ada");
  v1::CancelJobResponse response;
  ASSERT_OK(Call(&Stub::CancelJob, request, response));
  EXPECT_EQ(std::get<controller::CancelJob>(engine_.events().back()).actor, "user:ada");
  request.set_user("two words");
  EXPECT_THAT(Call(&Stub::CancelJob, request, response),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("user")));
}

TEST_F(JobControlTest, ATaskIsFoundByItsArrayAndNumber) {
  v1::ControlJobRequest request = Hold(1);
  request.mutable_job()->mutable_task()->set_array_id(1);
  request.mutable_job()->mutable_task()->set_index(7);
  ASSERT_OK(Control(request));
  EXPECT_EQ(std::get<controller::ControlJob>(engine_.events().back()).job_id, 3u);
  for (const auto& [array, index] : {std::pair(1, 4), std::pair(1, 8), std::pair(2, 6)}) {
    request.mutable_job()->mutable_task()->set_array_id(array);
    request.mutable_job()->mutable_task()->set_index(index);
    EXPECT_THAT(Control(request), StatusIs(absl::StatusCode::kNotFound)) << array << "_" << index;
  }
}

TEST_F(JobControlTest, WhatNamesNoVerbOrJobIsRefusedBeforeTheEngine) {
  v1::ControlJobRequest request = Hold(1);
  request.clear_verb();
  EXPECT_THAT(Control(request), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("verb")));
  request = Hold(99);
  EXPECT_THAT(Control(request), StatusIs(absl::StatusCode::kNotFound, HasSubstr("job 99")));
  request = Hold(1);
  request.set_request_id(std::string(129, 'r'));
  EXPECT_THAT(Control(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("request_id")));
  EXPECT_TRUE(engine_.events().empty());
}

TEST_F(JobControlTest, AnUpdateIsAsValidAsASubmit) {
  v1::UpdateJobRequest request;
  request.mutable_job()->set_id(1);
  request.set_user("ada");
  request.set_priority(1005);
  request.add_pools("spot");
  request.add_pools("ondemand after 10m");
  request.mutable_max_run_time()->set_seconds(3600);
  request.set_deadline("");
  ASSERT_OK(Update(request));
  const auto event = std::get<controller::UpdateJob>(engine_.events().back());
  EXPECT_EQ(event.priority, 1005);
  ASSERT_EQ(event.pools.size(), 2u);
  EXPECT_EQ(event.pools[1].after, absl::Minutes(10));
  EXPECT_EQ(event.max_run_time, absl::Hours(1));
  EXPECT_EQ(event.deadline, absl::InfiniteFuture());
  EXPECT_FALSE(event.begin.has_value());

  const auto refused = [&](auto change, const char* word) {
    v1::UpdateJobRequest bad = request;
    change(bad);
    EXPECT_THAT(Update(bad), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(word)));
  };
  refused([](auto& r) { r.set_priority(3000); }, "priority");
  refused([](auto& r) { r.add_pools("No Pool"); }, "placement.pools");
  refused([](auto& r) { r.mutable_max_run_time()->set_seconds(-1); }, "scheduling.max_run_time");
  refused([](auto& r) { r.set_begin("tomorrow"); }, "scheduling.begin");
  EXPECT_EQ(engine_.events().size(), 1u);
}

TEST_F(JobControlTest, ADrainNamesItsReasonAndAnUndrainForgetsIt) {
  v1::CordonWorkerRequest request;
  request.set_worker("w1");
  request.set_cordoned(true);
  request.set_reason("a fan");
  request.set_user("ada");
  v1::CordonWorkerResponse response;
  ASSERT_OK(Call(&Stub::CordonWorker, request, response));
  EXPECT_EQ(std::get<controller::CordonWorker>(engine_.events().back()).reason, "a fan");
  request.set_cordoned(false);
  ASSERT_OK(Call(&Stub::CordonWorker, request, response));
  EXPECT_EQ(std::get<controller::CordonWorker>(engine_.events().back()).reason, "");
  request.set_reason(std::string(257, 'r'));
  EXPECT_THAT(Call(&Stub::CordonWorker, request, response),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("reason")));
}

TEST_F(JobControlTest, AWorkerIsForgottenInTheUsersName) {
  v1::ForgetWorkerRequest request;
  request.set_worker("w1");
  request.set_user("ada");
  request.set_gone(true);
  v1::ForgetWorkerResponse response;
  ASSERT_OK(Call(&Stub::ForgetWorker, request, response));
  const auto event = std::get<controller::ForgetWorker>(engine_.events().back());
  EXPECT_EQ(event.worker, "w1");
  EXPECT_EQ(event.actor, "user:ada");
  EXPECT_TRUE(event.gone);
  request.set_user("a b");
  EXPECT_THAT(Call(&Stub::ForgetWorker, request, response),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("user")));
}

TEST_F(JobControlTest, ARequeueWhoseFolderIsGoneIsRefusedWithTheWayOut) {
  const auto put = [&](JobState state) {
    engine_.Publish([&](Snapshot& s) {
      auto job = std::make_shared<Job>(*s.FindJob(1));
      auto settings = std::make_shared<JobSettings>(*job->settings);
      settings->upload = std::string(64, 'a');
      job->settings = settings;
      job->state = state;
      s.jobs.Put(1, job);
    });
  };
  v1::ControlJobRequest request = Hold(1);
  request.set_verb(v1::ControlJobRequest::REQUEUE);
  put(JobState::kRunning);
  EXPECT_OK(Control(request)) << "a live job's folder is kept";
  put(JobState::kFailed);
  EXPECT_THAT(Control(request),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("muster submit --upload")));
  EXPECT_EQ(engine_.events().size(), 1u);
}

TEST_F(JobControlTest, AProjectIsNamedAsInASpec) {
  v1::SetProjectRequest request;
  v1::SetProjectResponse response;
  for (const std::string& name : {std::string("Bad!Name"), std::string(), std::string("-a"),
                                  std::string(64, 'a'), std::string("a b")}) {
    request.set_project(name);
    EXPECT_THAT(Call(&Stub::SetProject, request, response),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("project: a name is")))
        << name;
  }
  EXPECT_TRUE(engine_.events().empty());
}

TEST_F(JobControlTest, ProjectsComeInPages) {
  constexpr int kProjects = 60'000;
  engine_.Publish([](Snapshot& s) {
    std::map<std::string, std::shared_ptr<const ProjectUse>> use;
    ProjectUse busy;
    busy.all.queued = 1;
    for (int i = 0; i < kProjects; ++i) {
      use[absl::StrCat("p", i, std::string(40, 'x'))] = std::make_shared<const ProjectUse>(busy);
    }
    s.use = std::make_shared<const decltype(use)>(std::move(use));
  });
  v1::ListProjectsRequest request;
  std::set<std::string> seen;
  int pages = 0;
  do {
    v1::ListProjectsResponse response;
    ASSERT_OK(Call(&Stub::ListProjects, request, response));
    EXPECT_LE(response.ByteSizeLong(), 3u << 20);
    for (const v1::ProjectInfo& project : response.projects()) seen.insert(project.name());
    request.set_page_token(response.next_page_token());
    ++pages;
  } while (!request.page_token().empty());
  EXPECT_EQ(seen.size(), static_cast<size_t>(kProjects));
  EXPECT_GT(pages, 1);
}

TEST_F(JobControlTest, AProjectIsSetInPartsAndListedWithItsUse) {
  v1::SetProjectRequest request;
  request.set_project("vision");
  request.set_user("ada");
  request.set_weight(2);
  request.mutable_quota()->set_slots(8);
  (*request.mutable_users())["bob"].set_queued(5);
  request.add_reset_users("eve");
  v1::SetProjectResponse response;
  ASSERT_OK(Call(&Stub::SetProject, request, response));
  const auto event = std::get<controller::SetProject>(engine_.events().back());
  EXPECT_EQ(event.weight, 2);
  EXPECT_EQ(event.quota->slots, 8u);
  EXPECT_FALSE(event.quota->queued.has_value());
  EXPECT_FALSE(event.each_user.has_value());
  EXPECT_EQ(event.users.at("bob")->queued, 5u);
  EXPECT_FALSE(event.users.at("eve").has_value());
  EXPECT_EQ(event.actor, "user:ada");

  engine_.Publish([](Snapshot& s) {
    auto project = std::make_shared<Project>();
    project->name = "vision";
    project->weight = 2;
    project->used = {.slot_seconds = 7200, .at = absl::Now()};
    s.projects = std::make_shared<const std::map<std::string, std::shared_ptr<const Project>>>(
        std::map<std::string, std::shared_ptr<const Project>>{{"vision", project}});
    auto use = std::make_shared<ProjectUse>();
    use->all = {.slots = 3, .queued = 1};
    use->users["bob"] = use->all;
    s.use = std::make_shared<const std::map<std::string, std::shared_ptr<const ProjectUse>>>(
        std::map<std::string, std::shared_ptr<const ProjectUse>>{{"other", use}});
  });
  v1::ListProjectsResponse list;
  ASSERT_OK(Call(&Stub::ListProjects, v1::ListProjectsRequest(), list));
  ASSERT_EQ(list.projects_size(), 2);
  EXPECT_EQ(list.projects(0).name(), "other");
  EXPECT_EQ(list.projects(0).weight(), 1);
  EXPECT_EQ(list.projects(0).user_use(0).slots(), 3u);
  EXPECT_NEAR(list.projects(1).used_slot_seconds(), 7200, 1);
}

}  // namespace
}  // namespace muster::controller
