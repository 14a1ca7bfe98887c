#include "controller/policy/archive/archivable_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/model/draft.h"
#include "controller/model/types/events.h"
#include "controller/policy/archive/ended_jobs_queue.h"

namespace muster::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ArchivableJobsTest : public ::testing::Test {
 protected:
  ArchivableJobsTest() {
    settings_.forget_after = absl::Hours(24);
    snapshot_ = std::make_shared<const Snapshot>();
  }

  void Change(const std::function<void(Draft&)>& edit) {
    Draft draft(*snapshot_, now_);
    edit(draft);
    snapshot_ = draft.Finish();
  }
  // Of a name of its own, if none is given.
  uint64_t Submit(JobSettings settings = {}, const ArrayTask& array = {}) {
    uint64_t id = snapshot_->jobs.last_id() + 1;
    if (settings.name.empty()) settings.name = absl::StrCat("job-", id);
    Change([&](Draft& draft) {
      Job job;
      job.settings = std::make_shared<const JobSettings>(settings);
      job.array = array;
      id = draft.AddJob(std::move(job)).id;
      draft.AddEvent({.job_id = id, .reason = Reason::kSubmitted});
    });
    return id;
  }
  void End(uint64_t id) {
    Change([&](Draft& draft) {
      draft.EditJob(id).state = JobState::kSucceeded;
      draft.AddEvent({.job_id = id, .to = JobState::kSucceeded});
    });
  }
  uint64_t SubmitAndEnd(JobSettings settings = {}) {
    const uint64_t id = Submit(std::move(settings));
    End(id);
    return id;
  }
  // What one look finds.
  std::vector<uint64_t> Next() {
    std::vector<uint64_t> ids;
    for (const EndedJobs& ended : queue_.Next(*snapshot_, settings_, now_)) {
      ids.push_back(ended.first);
    }
    return ids;
  }
  bool MayGo(uint64_t id) const {
    return EvaluateEnded(*snapshot_, NeededYet(*snapshot_), id).has_value();
  }

  absl::Duration now_ = absl::Hours(1);  // ledger time is the same, since 1970
  ArchiveSettings settings_;
  std::shared_ptr<const Snapshot> snapshot_;
  EndedJobsQueue queue_{/*start=*/absl::ZeroDuration()};
};

TEST_F(ArchivableJobsTest, AJobGoesOnceItHasEndedLongAgo) {
  const uint64_t first = SubmitAndEnd();
  now_ += absl::Hours(1);
  const uint64_t second = SubmitAndEnd();
  const uint64_t runs = Submit();
  EXPECT_FALSE(MayGo(runs));
  now_ += absl::Hours(22);
  EXPECT_THAT(Next(), IsEmpty());
  now_ += absl::Hours(1);
  EXPECT_THAT(Next(), ElementsAre(first));
  now_ += absl::Hours(1);
  EXPECT_THAT(Next(), ElementsAre(first, second)) << "it was not taken yet";
  Change([&](Draft& draft) { draft.ArchiveJob(first, 0); });
  EXPECT_THAT(Next(), ElementsAre(second));
  settings_.forget_after = absl::InfiniteDuration();
  EXPECT_THAT(Next(), IsEmpty());
}

TEST_F(ArchivableJobsTest, OneThatWasQueuedAgainEndsAnew) {
  const uint64_t id = SubmitAndEnd();
  now_ += absl::Hours(25);
  EXPECT_THAT(Next(), ElementsAre(id));
  Change([&](Draft& draft) {
    draft.EditJob(id).state = JobState::kPending;
    draft.AddEvent({.job_id = id, .from = JobState::kSucceeded, .reason = Reason::kRequeued});
  });
  EXPECT_THAT(Next(), IsEmpty());
  End(id);
  now_ += absl::Hours(23);
  EXPECT_THAT(Next(), IsEmpty());
  now_ += absl::Hours(1);
  EXPECT_THAT(Next(), ElementsAre(id));
}

TEST_F(ArchivableJobsTest, OneWhoseCheckpointsAreToBeRereadOrDeletedStaysUntilThatIsDone) {
  const uint64_t id = SubmitAndEnd();
  Change([&](Draft& draft) {
    draft.AddCheckpoint({.job_id = id, .state = CheckpointState::kCommitted, .path = "/c/1"});
  });
  EXPECT_FALSE(MayGo(id));
  now_ += absl::Hours(30);
  EXPECT_THAT(Next(), IsEmpty());
  Change([&](Draft& draft) { draft.EditCheckpoint(1).state = CheckpointState::kVerified; });
  EXPECT_TRUE(MayGo(id)) << "what is kept stays kept";
  now_ += EndedJobsQueue::kAgainAfter;
  EXPECT_THAT(Next(), ElementsAre(id)) << "it is evaluated again after a while";
}

TEST_F(ArchivableJobsTest, OneWhoseRankMayLiveStays) {
  const uint64_t id = Submit();
  Change([&](Draft& draft) {
    Rank rank;
    rank.state = RankState::kUnkillable;
    draft.AddAttempt(id, {.number = 1, .ended = absl::UnixEpoch(), .ranks = {rank}});
    draft.EditJob(id).state = JobState::kCancelled;
  });
  EXPECT_FALSE(MayGo(id));
  Change([&](Draft& draft) { draft.EditRank(id, 0).holds_slots = false; });
  EXPECT_TRUE(MayGo(id));
}

TEST_F(ArchivableJobsTest, OneOfWhichAnAgentIsToBeToldStays) {
  const uint64_t id = SubmitAndEnd();
  Change([&](Draft& draft) {
    draft.AddOutbox({.worker = "w", .kind = AssignmentKind::kStop, .fence = {.job_id = id}});
  });
  EXPECT_FALSE(MayGo(id));
  Change([&](Draft& draft) { draft.RemoveOutbox(1); });
  EXPECT_TRUE(MayGo(id));
}

TEST_F(ArchivableJobsTest, OneThatAJobWaitsForStaysUntilThatHasEnded) {
  const uint64_t id = SubmitAndEnd();
  JobSettings settings;
  settings.scheduling.after = {{.job_id = id}};
  const uint64_t waits = Submit(settings);
  EXPECT_FALSE(MayGo(id));
  End(waits);
  EXPECT_TRUE(MayGo(id));
}

TEST_F(ArchivableJobsTest, OneThatAJobBeganFromStaysAsLongAsThat) {
  const uint64_t id = SubmitAndEnd();
  Change([&](Draft& draft) {
    draft.AddCheckpoint({.job_id = id, .state = CheckpointState::kDeleted});
  });
  EXPECT_TRUE(MayGo(id));
  JobSettings settings;
  settings.resume_from = {1};
  const uint64_t later = SubmitAndEnd(settings);
  EXPECT_FALSE(MayGo(id)) << "what it began from is shown, and asked for if it is queued again";
  Change([&](Draft& draft) { draft.RebuildJobLists(); });
  EXPECT_FALSE(MayGo(id)) << "after a restart";
  Change([&](Draft& draft) { draft.ArchiveJob(later, 0); });
  EXPECT_TRUE(MayGo(id));
}

// As jobs do that begin from the newest of their own name.
TEST_F(ArchivableJobsTest, AChainGoesFromItsEndOneAfterTheOther) {
  std::vector<uint64_t> chain;
  JobSettings settings;
  settings.name = "nightly";
  for (uint64_t i = 1; i <= 4; ++i) {
    chain.push_back(SubmitAndEnd(settings));
    Change([&](Draft& draft) {
      draft.AddCheckpoint({.job_id = chain.back(), .state = CheckpointState::kDeleted});
    });
    settings.resume_from = {i};
  }
  now_ += absl::Hours(25);
  while (!chain.empty()) {
    ASSERT_THAT(Next(), ElementsAre(chain.back()));
    Change([&](Draft& draft) { draft.ArchiveJob(chain.back(), 0); });
    chain.pop_back();
  }
}

// Who asks for the name finds it in history.db.
TEST_F(ArchivableJobsTest, TheNewestOfANameMayGoBeforeOlderOnes) {
  JobSettings nightly;
  nightly.name = "nightly";
  const uint64_t saved = SubmitAndEnd(nightly);
  const uint64_t middle = SubmitAndEnd(nightly);
  const uint64_t newest = SubmitAndEnd(nightly);
  Change([&](Draft& draft) {
    draft.AddCheckpoint({.job_id = saved, .state = CheckpointState::kCommitted, .path = "/c/1"});
  });
  EXPECT_FALSE(MayGo(saved));
  EXPECT_TRUE(MayGo(middle));
  EXPECT_TRUE(MayGo(newest));
  Change([&](Draft& draft) { draft.ArchiveJob(newest, 0); });
  EXPECT_EQ(snapshot_->FindJobByName("nightly")->id, middle);
  Change([&](Draft& draft) { draft.ArchiveJob(middle, 0); });
  EXPECT_EQ(snapshot_->FindJobByName("nightly")->id, saved);
  Change([&](Draft& draft) { draft.EditCheckpoint(1).state = CheckpointState::kDeleted; });
  Change([&](Draft& draft) { draft.ArchiveJob(saved, 0); });
  EXPECT_EQ(snapshot_->by_name.Find("nightly"), nullptr);
}

TEST_F(ArchivableJobsTest, AnArrayGoesTogether) {
  JobSettings settings;
  settings.name = "sweep";
  const uint64_t first = Submit(settings, {.array_id = 1, .index = 0});
  const uint64_t last = Submit(settings, {.array_id = 1, .index = 1});
  Submit(settings, {.array_id = 3, .index = 0});
  End(first);
  now_ += absl::Hours(20);
  EXPECT_FALSE(MayGo(first)) << "the other one has not ended";
  End(last);
  EXPECT_TRUE(MayGo(first));
  EXPECT_FALSE(MayGo(last)) << "not alone";
  now_ += absl::Hours(10);
  EXPECT_THAT(Next(), IsEmpty()) << "its last task ended later";
  now_ += absl::Hours(15);
  const std::vector<EndedJobs> next = queue_.Next(*snapshot_, settings_, now_);
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].first, first);
  EXPECT_EQ(next[0].finished, absl::UnixEpoch() + absl::Hours(21));
  const auto ended = EvaluateEnded(*snapshot_, {}, first);
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->last, last) << "the next array is another";
  JobSettings waits;
  waits.scheduling.after = {{.job_id = first, .task = 1}};
  Submit(waits);
  EXPECT_FALSE(MayGo(first)) << "one waits for a task of it";
}

TEST_F(ArchivableJobsTest, TheLongestEndedGoBeyondTheBound) {
  settings_ = {.recent = 3};
  std::vector<uint64_t> ids;
  for (int i = 0; i < 6; ++i) ids.push_back(Submit());
  const uint64_t runs = Submit();
  for (const int i : {2, 0, 1, 3, 4, 5}) {
    now_ += absl::Seconds(1);
    End(ids[i]);
  }
  Change([&](Draft& draft) {
    draft.AddCheckpoint({.job_id = ids[0], .state = CheckpointState::kCommitted, .path = "/c/1"});
  });
  now_ += kLeastKeptBeyondRecent;
  EXPECT_THAT(Next(), ElementsAre(ids[2], ids[1], ids[3])) << "one of the first stays";
  EXPECT_FALSE(MayGo(runs));
  settings_.recent = 6;
  EXPECT_THAT(Next(), IsEmpty());
}

// Those before it may all have to stay: it is not to be gone before anybody heard of its end.
TEST_F(ArchivableJobsTest, WhatHasJustEndedStaysHoweverManyHave) {
  settings_ = {.recent = 1};
  const uint64_t kept = SubmitAndEnd();
  Change([&](Draft& draft) {
    draft.AddCheckpoint({.job_id = kept, .state = CheckpointState::kCommitted, .path = "/c/1"});
  });
  const uint64_t first = Submit({.name = "sweep"}, {.array_id = 2});
  const uint64_t last = Submit({.name = "sweep"}, {.array_id = 2, .index = 1});
  End(first);
  now_ += kLeastKeptBeyondRecent - absl::Seconds(1);
  EXPECT_THAT(Next(), IsEmpty());
  const uint64_t alone = SubmitAndEnd();
  End(last);
  now_ += kLeastKeptBeyondRecent - absl::Seconds(1);
  EXPECT_THAT(Next(), IsEmpty()) << "the last task of the array has just ended";
  now_ += absl::Seconds(1);
  EXPECT_THAT(Next(), ElementsAre(first, alone));
}

TEST_F(ArchivableJobsTest, WhereTheBoundIsFullOfWhatMustStayOthersStayForAnHour) {
  settings_ = {.recent = 2};
  for (int i = 0; i < 3; ++i) {
    const uint64_t kept = SubmitAndEnd();
    Change([&](Draft& draft) {
      draft.AddCheckpoint({.job_id = kept, .state = CheckpointState::kCommitted, .path = "/c/1"});
    });
  }
  now_ += absl::Hours(2);
  const uint64_t ended = SubmitAndEnd();
  now_ += absl::Minutes(10);
  EXPECT_THAT(Next(), IsEmpty());
  now_ += absl::Minutes(50);
  EXPECT_THAT(Next(), ElementsAre(ended));
}

TEST_F(ArchivableJobsTest, AFullBoundKeepsNothingForLongerThanItsTime) {
  settings_ = {.recent = 1, .forget_after = absl::Minutes(10)};
  const uint64_t first = Submit({.name = "sweep"}, {.array_id = 1});
  const uint64_t last = Submit({.name = "sweep"}, {.array_id = 1, .index = 1});
  End(first);
  End(last);
  const uint64_t alone = SubmitAndEnd();
  now_ += absl::Minutes(11);
  EXPECT_THAT(Next(), ElementsAre(first, alone));
}

// Whoever follows a job that ended just before has had nobody to hear it from.
TEST_F(ArchivableJobsTest, NothingGoesRightAfterAStart) {
  settings_ = {.recent = 1, .forget_after = kLeastKept};
  const uint64_t first = SubmitAndEnd();
  const uint64_t last = SubmitAndEnd();
  now_ += absl::Hours(1);
  queue_ = EndedJobsQueue(/*start=*/now_);
  now_ += kLeastKept - absl::Seconds(1);
  EXPECT_THAT(Next(), IsEmpty());
  now_ += absl::Seconds(1);
  EXPECT_THAT(Next(), ElementsAre(first, last));
}

TEST_F(ArchivableJobsTest, ATurnFindsAboutABatch) {
  for (int i = 0; i < 1000; ++i) SubmitAndEnd();
  now_ += absl::Hours(25);
  const std::vector<uint64_t> ids = Next();
  ASSERT_EQ(ids.size(), ArchiveJobs::kMost);
  EXPECT_EQ(ids.front(), 1u);
}

// What is touched in a draft has not come to the lists yet.
TEST_F(ArchivableJobsTest, WhatADraftTouchesIsNeeded) {
  const uint64_t waited_for = SubmitAndEnd();
  const uint64_t edited = SubmitAndEnd();
  const uint64_t other = SubmitAndEnd();
  Draft draft(*snapshot_, now_);
  draft.EditJob(edited).message = "new";
  JobSettings settings;
  settings.scheduling.after = {{.job_id = waited_for}};
  Job job;
  job.settings = std::make_shared<const JobSettings>(settings);
  draft.AddJob(std::move(job));
  const std::set<uint64_t> needed = NeededYet(draft.view(), draft.EditedJobs());
  EXPECT_FALSE(EvaluateEnded(draft.view(), needed, waited_for).has_value());
  EXPECT_FALSE(EvaluateEnded(draft.view(), needed, edited).has_value());
  EXPECT_TRUE(EvaluateEnded(draft.view(), needed, other).has_value());
}

}  // namespace
}  // namespace muster::controller
