#include "controller/rules/projects/hard_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "absl/strings/str_cat.h"
#include "controller/rules/rules.h"
#include "tests/support/controller_fixture.h"
#include "tests/support/status_matchers.h"

namespace muster::testing {
namespace {

using ::testing::HasSubstr;

TEST(QueueBoundsTest, SoManyProjectsAreKnown) {
  mc::Draft draft{mc::Snapshot()};
  for (size_t i = 0; i < mc::kMaxProjects; ++i) draft.EditProject(absl::StrCat("p", i));
  EXPECT_THAT(mc::OnSetProject(draft, {.project = "late", .weight = 2}).status,
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("project late is new")));
  EXPECT_EQ(draft.view().FindProject("late"), nullptr);
  EXPECT_OK(mc::OnSetProject(draft, {.project = "p7", .weight = 2}).status);
}

TEST(QueueBoundsTest, ProjectsOfTheSameBatchCount) {
  mc::Draft draft{mc::Snapshot()};
  for (size_t i = 0; i + 1 < mc::kMaxProjects; ++i) draft.EditProject(absl::StrCat("p", i));
  const auto submit = [&](const std::string& project) {
    auto settings = std::make_shared<mc::JobSettings>(*MakeSettings({.wait_for_capacity = true}));
    settings->project = project;
    const mc::IdempotencyIndex none;
    return mc::OnSubmit(draft, {.settings = settings, .owner = "ann"}, {.idempotency = &none})
        .status;
  };
  EXPECT_OK(submit("last"));
  EXPECT_OK(submit("last")) << "it is known by now";
  EXPECT_THAT(submit("late"), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(QueueBoundsTest, SoManyJobsHaveNotEnded) {
  mc::Snapshot full;
  auto active = std::make_shared<std::vector<uint64_t>>(mc::kMaxActiveJobs - 2);
  std::iota(active->begin(), active->end(), 1);
  full.active_jobs = active;
  mc::Draft draft(full);
  EXPECT_OK(mc::MayAddJobs(draft, 2));
  EXPECT_THAT(mc::MayAddJobs(draft, 3), StatusIs(absl::StatusCode::kResourceExhausted));
  mc::Job job;
  job.settings = std::make_shared<const mc::JobSettings>();
  draft.AddJob(std::move(job));
  EXPECT_THAT(mc::MayAddJobs(draft, 2), StatusIs(absl::StatusCode::kResourceExhausted))
      << "those of the same batch count";
}

TEST(QueueBoundsTest, SoManyNamesOfWorkersAreKnown) {
  mc::Draft draft{mc::Snapshot()};
  for (size_t i = 0; i < mc::kMaxWorkers; ++i) {
    mc::Worker worker;
    worker.name = absl::StrCat("w", i);
    draft.AddWorker(std::move(worker));
  }
  const auto hello = [&](const std::string& name) {
    mc::WorkerHello event;
    event.worker = name;
    event.incarnation = std::string(16, 'i');
    event.predecessors = {""};
    return mc::OnHello(draft, event, {}).status;
  };
  EXPECT_THAT(hello("late"), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("late")));
  EXPECT_OK(hello("w7")) << "a name that is known comes again";
}

// Nothing is taken from the queue here before RunUntilIdle.
class WaitingEventsTest : public ControllerFixture {};

TEST_F(WaitingEventsTest, AreBounded) {
  constexpr size_t kMost = 65'536;
  size_t refused = 0;
  absl::Status why;
  for (size_t i = 0; i < kMost + 3; ++i) {
    engine_->Post(mc::CancelJob{.job_id = 1, .actor = "user:ann"},
                  [&](const mc::EventResult& result) {
                    if (!absl::IsUnavailable(result.status)) return;
                    ++refused;
                    why = result.status;
                  });
  }
  EXPECT_EQ(refused, 3u);
  EXPECT_THAT(why, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("overloaded")));
  engine_->RunUntilIdle();
  EXPECT_EQ(refused, 3u);
}

class EventsOfAJobTest : public ControllerFixture {};

TEST_F(EventsOfAJobTest, AreBounded) {
  const uint64_t id = Submit();
  mc::Draft draft(*snapshot());
  while (draft.view().FindJob(id)->events.size() < mc::kMaxEventsOfJob) {
    draft.AddEvent({.job_id = id});
  }
  const mc::RuleContext context;
  const auto control = [&](mc::ControlJob::Verb verb) {
    return mc::OnControl(draft, {.verb = verb, .job_id = id, .actor = "user:ann"}, context).status;
  };
  EXPECT_THAT(control(mc::ControlJob::Verb::kHold),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("cancel it")));
  EXPECT_THAT(
      mc::OnUpdate(draft, {.job_id = id, .actor = "user:ann", .priority = 5}, context).status,
      StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_OK(mc::OnCancel(draft, {.job_id = id, .actor = "user:ann"}, context).status);
}

}  // namespace
}  // namespace muster::testing
