#include "controller/api/convert/found_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/controller/api/fake_engine.h"
#include "tests/support/status_matchers.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::SizeIs;

std::shared_ptr<Job> In(std::shared_ptr<Job> job, std::string project, uint32_t restarts = 0) {
  auto settings = std::make_shared<JobSettings>(*job->settings);
  settings->project = std::move(project);
  job->settings = std::move(settings);
  job->restarts = restarts;
  return job;
}

class FoundJobsTest : public ::testing::Test {
 protected:
  FoundJobsTest() {
    jobs_.Put(1, In(MakeJob(1, "digits", JobState::kSucceeded), "vision", 2));
    jobs_.Put(2, In(MakeJob(2, "Language", JobState::kRunning), "text", 5));
    jobs_.Put(3, In(MakeJob(3, "digits", JobState::kRunning), "vision"));
    jobs_.Put(4, In(MakeJob(4, "audio", JobState::kPending), "vision"));
  }
  v1::FindJobsResponse Find() {
    Snapshot snapshot;
    snapshot.jobs = jobs_;
    v1::FindJobsResponse response;
    EXPECT_OK(FillFoundJobs(snapshot, 9, request_, may_read_, response));
    return response;
  }
  std::vector<uint64_t> Ids() {
    std::vector<uint64_t> ids;
    const v1::FindJobsResponse found = Find();
    for (const v1::JobSummary& job : found.jobs()) ids.push_back(job.id());
    return ids;
  }

  CowTable<Job> jobs_;
  v1::FindJobsRequest request_;
  MayRead may_read_;
};

TEST_F(FoundJobsTest, OfOtherProjectsThanOneMayReadNothingIsShown) {
  may_read_ = [](absl::string_view project) { return project == "text"; };
  EXPECT_THAT(Ids(), ElementsAre(2));
  const v1::FindJobsResponse found = Find();
  EXPECT_EQ(found.matching(), 1u);
  EXPECT_THAT(found.projects(), ElementsAre("text"));
  EXPECT_THAT(found.counts(), SizeIs(1));
}

TEST_F(FoundJobsTest, TheNewestComesFirstUnlessAnotherOrderIsAskedFor) {
  EXPECT_THAT(Ids(), ElementsAre(4, 3, 2, 1));
  request_.set_ascending(true);
  EXPECT_THAT(Ids(), ElementsAre(1, 2, 3, 4));
  request_.set_order(v1::FindJobsRequest::NAME);
  EXPECT_THAT(Ids(), ElementsAre(2, 4, 3, 1));
  request_.set_order(v1::FindJobsRequest::RESTARTS);
  request_.set_ascending(false);
  EXPECT_THAT(Ids(), ElementsAre(2, 1, 4, 3));
}

TEST_F(FoundJobsTest, FiltersByStateProjectAndText) {
  request_.add_states(v1::RUNNING);
  EXPECT_THAT(Ids(), ElementsAre(3, 2));
  request_.set_project("vision");
  EXPECT_THAT(Ids(), ElementsAre(3));
  request_.Clear();
  request_.set_text("LANG");
  EXPECT_THAT(Ids(), ElementsAre(2));
  request_.set_text("3");
  EXPECT_THAT(Ids(), ElementsAre(3));
}

TEST_F(FoundJobsTest, CountsWhatMatchesButForItsState) {
  request_.set_project("vision");
  request_.add_states(v1::RUNNING);
  const v1::FindJobsResponse found = Find();
  EXPECT_EQ(found.matching(), 1u);
  ASSERT_EQ(found.counts_size(), 3);
  for (const auto& count : found.counts()) EXPECT_EQ(count.jobs(), 1u) << count.state();
  EXPECT_THAT(found.projects(), ElementsAre("text", "vision"));
  EXPECT_EQ(found.archived(), 9u);
}

TEST_F(FoundJobsTest, PagesFollowEachOtherAndEnd) {
  request_.set_page_size(3);
  EXPECT_THAT(Ids(), ElementsAre(4, 3, 2));
  request_.set_offset(3);
  EXPECT_THAT(Ids(), ElementsAre(1));
  request_.set_offset(4'000'000'000);
  EXPECT_THAT(Ids(), ElementsAre());
}

TEST_F(FoundJobsTest, BadRequestsAreRefused) {
  v1::FindJobsResponse response;
  request_.set_text(std::string(257, 'x'));
  EXPECT_THAT(FillFoundJobs(Snapshot(), 0, request_, nullptr, response),
              StatusIs(absl::StatusCode::kInvalidArgument));
  request_.Clear();
  request_.set_order(static_cast<v1::FindJobsRequest::Order>(99));
  EXPECT_THAT(FillFoundJobs(Snapshot(), 0, request_, nullptr, response),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace muster::controller
