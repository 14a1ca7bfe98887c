#include "controller/model/draft.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "controller/model/rank_origin.h"
#include "controller/model/tables/cow_table.h"

namespace muster::controller {
namespace {

TEST(RankOriginTest, MetricsComeFromWhereTheRankWasPlaced) {
  Job job;
  job.id = 3;
  for (uint32_t number : {1, 2}) {
    auto attempt = std::make_shared<Attempt>();
    attempt->number = number;
    attempt->generation = 1;
    attempt->ranks.push_back({.rank = 0, .worker = number == 1 ? "a" : "b"});
    if (number == 1) job.past.push_back(attempt);
    if (number == 2) job.current = attempt;
  }
  EXPECT_TRUE(WasPlacedOn(job, {3, 1, 1, 0}, "a"));
  EXPECT_TRUE(WasPlacedOn(job, {3, 2, 1, 0}, "b"));
  EXPECT_FALSE(WasPlacedOn(job, {3, 2, 1, 0}, "a")) << "another's rank";
  for (const RankKey& key :
       {RankKey{3, 0, 1, 0}, RankKey{3, 3, 1, 0}, RankKey{3, 1, 2, 0}, RankKey{3, 1, 1, 1}}) {
    EXPECT_FALSE(WasPlacedOn(job, key, "a"));
  }
}

TEST(CowTableTest, CopiesShareWhatDidNotChange) {
  CowTable<int> first;
  for (int i = 1; i <= 200; ++i) first.Put(i, std::make_shared<const int>(i));
  CowTable<int> second = first;
  second.Put(100, std::make_shared<const int>(-100));
  EXPECT_EQ(*first.Find(100), 100);
  EXPECT_EQ(*second.Find(100), -100);
  EXPECT_EQ(first.Find(101), second.Find(101)) << "the same row";
  EXPECT_EQ(second.size(), 200u);
  EXPECT_EQ(second.last_id(), 200u);
  EXPECT_EQ(first.Find(0), nullptr);
  EXPECT_EQ(first.Find(1000), nullptr);
  int sum = 0;
  second.ForEach([&](const int& row) { sum += row; });
  EXPECT_EQ(sum, 200 * 201 / 2 - 200);
}

Job MakeJob() {
  Job job;
  auto settings = std::make_shared<JobSettings>();
  settings->name = "a";
  job.settings = std::move(settings);
  return job;
}

Attempt MakeAttempt(uint32_t number, uint32_t ranks) {
  Attempt attempt;
  attempt.number = number;
  attempt.ranks.resize(ranks);
  for (uint32_t i = 0; i < ranks; ++i) attempt.ranks[i].rank = i;
  return attempt;
}

TEST(DraftTest, ADroppedDraftLeavesItsBaseAlone) {
  Snapshot base;
  {
    Draft first(base);
    first.AddJob(MakeJob());
    base = *first.Finish();
  }
  {
    Draft dropped(base);
    dropped.EditJob(1).message = "changed";
    dropped.AddAttempt(1, MakeAttempt(1, 2));
    dropped.AddEvent({.job_id = 1});
    dropped.AddOutbox({.worker = "w"});
    EXPECT_EQ(dropped.view().FindJob(1)->message, "changed") << "reads see the edits";
    EXPECT_EQ(dropped.view().outbox.size(), 1u);
  }
  EXPECT_EQ(base.FindJob(1)->message, "");
  EXPECT_EQ(base.FindJob(1)->current, nullptr);
  EXPECT_TRUE(base.FindJob(1)->events.empty());
  EXPECT_EQ(base.last_event, 0u);
  EXPECT_TRUE(base.outbox.empty());
}

TEST(DraftTest, OnlyDurableEditsAreChanges) {
  Snapshot base;
  {
    Draft first(base);
    first.AddJob(MakeJob());
    first.AddWorker({.name = "w"});
    EXPECT_EQ(first.Changes().new_jobs.size(), 1u);
    EXPECT_TRUE(first.Changes().jobs.empty());
    base = *first.Finish();
  }
  Draft draft(base);
  draft.ShowMessage(1, "waits");
  draft.EditPulse(1).connected = true;
  EXPECT_TRUE(draft.Changes().empty());
  const uint64_t durable_version = base.durable_version;
  const auto next = draft.Finish();
  EXPECT_EQ(next->durable_version, durable_version);
  EXPECT_EQ(next->version, base.version + 1);
  EXPECT_EQ(next->FindJob(1)->message, "waits");
}

TEST(DraftTest, OnlyTheRanksThatChangedAreWritten) {
  Snapshot base;
  {
    Draft first(base);
    first.AddJob(MakeJob());
    first.AddAttempt(1, MakeAttempt(1, 3));
    EXPECT_EQ(first.Changes().attempts.at(0).ranks.size(), 3u);
    base = *first.Finish();
  }
  Draft draft(base);
  draft.EditRank(1, 2).state = RankState::kRunning;
  const ChangeSet changes = draft.Changes();
  ASSERT_EQ(changes.attempts.size(), 1u);
  EXPECT_EQ(changes.attempts[0].ranks, std::set<uint32_t>{2});
  EXPECT_EQ(base.FindJob(1)->current->ranks[2].state, RankState::kAssigned);
  EXPECT_EQ(changes.attempts[0].attempt->ranks[2].state, RankState::kRunning);
}

TEST(DraftTest, AnAttemptThatIsReplacedInTheSameDraftIsWrittenToo) {
  Snapshot base;
  {
    Draft first(base);
    first.AddJob(MakeJob());
    first.AddAttempt(1, MakeAttempt(1, 1));
    base = *first.Finish();
  }
  Draft draft(base);
  draft.EditAttempt(1).ended = absl::UnixEpoch();
  draft.AddAttempt(1, MakeAttempt(2, 1));
  draft.EditPastRank(1, 1, 0).holds_slots = false;
  const ChangeSet changes = draft.Changes();
  EXPECT_EQ(changes.attempts.size(), 3u);
  const auto next = draft.Finish();
  EXPECT_EQ(next->FindJob(1)->attempt, 2u);
  ASSERT_EQ(next->FindJob(1)->past.size(), 1u);
  EXPECT_FALSE(next->FindJob(1)->past[0]->live());
  EXPECT_FALSE(next->FindJob(1)->past[0]->ranks[0].holds_slots);
}

TEST(DraftTest, AnOutboxRowThatComesAndGoesInOneDraftIsNoChange) {
  Draft draft{Snapshot()};
  draft.AddOutbox({.worker = "w"});
  draft.RemoveOutbox(1);
  EXPECT_TRUE(draft.Changes().empty());
  draft.RemoveOutbox(99);
  EXPECT_TRUE(draft.Changes().outbox_removed.empty());
}

TEST(DraftTest, TheListsFollowTheJobs) {
  Draft draft{Snapshot()};
  draft.AddJob(MakeJob());
  draft.AddJob(MakeJob());
  draft.AddCheckpoint({.job_id = 2, .state = CheckpointState::kCommitted});
  auto snapshot = draft.Finish();
  EXPECT_EQ(*snapshot->active_jobs, (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(*snapshot->retention_jobs, std::vector<uint64_t>{2});
  Draft next(*snapshot);
  next.EditJob(1).state = JobState::kCancelled;
  next.EditCheckpoint(1).state = CheckpointState::kVerified;
  snapshot = next.Finish();
  EXPECT_EQ(*snapshot->active_jobs, std::vector<uint64_t>{2});
  EXPECT_TRUE(snapshot->retention_jobs->empty());
}

uint64_t AddSaved(Draft& draft, int64_t step, CheckpointState state, bool best = false) {
  return draft.AddCheckpoint({.job_id = 1, .step = step, .state = state, .best = best}).id;
}

// The best one of a run is often not among its last ones.
TEST(DraftTest, AJobIsCaredForOnlyWhileSomethingOfItIsToBeReadOrToGo) {
  constexpr CheckpointState kVerified = CheckpointState::kVerified;
  Draft draft{Snapshot()};
  Job job = MakeJob();
  JobSettings settings = *job.settings;
  settings.keep_last = 2;
  settings.needs.root = "/ckpt";
  settings.needs.pools = {{"default", {}}};
  job.settings = std::make_shared<const JobSettings>(std::move(settings));
  draft.AddJob(std::move(job));
  AddSaved(draft, 1, kVerified, /*best=*/true);
  AddSaved(draft, 2, kVerified);
  AddSaved(draft, 3, kVerified);
  draft.EditJob(1).state = JobState::kSucceeded;
  auto snapshot = draft.Finish();
  EXPECT_TRUE(snapshot->retention_jobs->empty()) << "the best one stays";
  EXPECT_TRUE(snapshot->roots_in_use->empty());

  const auto after = [&snapshot](const std::function<void(Draft&)>& edit) {
    Draft next(*snapshot);
    edit(next);
    snapshot = next.Finish();
    Draft rebuilt(*snapshot);
    rebuilt.RebuildJobLists();
    EXPECT_EQ(*rebuilt.view().retention_jobs, *snapshot->retention_jobs);
    EXPECT_EQ(snapshot->roots_in_use->empty(), snapshot->retention_jobs->empty());
    return !snapshot->retention_jobs->empty();
  };
  EXPECT_TRUE(after([](Draft& next) { next.EditCheckpoint(3).doubt.emplace(); }));
  EXPECT_FALSE(after([](Draft& next) { next.EditCheckpoint(3).doubt.reset(); }));
  EXPECT_TRUE(after([](Draft& next) { AddSaved(next, 4, CheckpointState::kCommitted); }));
  EXPECT_TRUE(after([](Draft& next) { next.EditCheckpoint(4).state = kVerified; })) << "2 goes";
  EXPECT_FALSE(
      after([](Draft& next) { next.EditCheckpoint(2).state = CheckpointState::kDeleted; }));
  EXPECT_TRUE(after([](Draft& next) { next.EditCheckpoint(4).best = true; })) << "1 goes";
}

TEST(DraftTest, BrokenOnesThatStayForLackOfVerifiedOnesAreNothingToCareFor) {
  Draft draft{Snapshot()};
  draft.AddJob(MakeJob());
  AddSaved(draft, 1, CheckpointState::kVerified);
  AddSaved(draft, 2, CheckpointState::kCorrupt);
  AddSaved(draft, 3, CheckpointState::kCorrupt);
  auto snapshot = draft.Finish();
  EXPECT_TRUE(snapshot->retention_jobs->empty());
  Draft next(*snapshot);
  AddSaved(next, 4, CheckpointState::kVerified);
  AddSaved(next, 5, CheckpointState::kVerified);
  snapshot = next.Finish();
  EXPECT_EQ(*snapshot->retention_jobs, std::vector<uint64_t>{1});
}

TEST(DraftTest, AJobCountsOnAnothersCheckpointUntilOneOfItsOwnIsVerified) {
  Draft draft{Snapshot()};
  draft.AddJob(MakeJob());
  draft.AddCheckpoint({.job_id = 1, .state = CheckpointState::kVerified});
  Job second = MakeJob();
  JobSettings settings = *second.settings;
  settings.resume_from = {1};
  second.settings = std::make_shared<const JobSettings>(std::move(settings));
  draft.AddJob(second);
  draft.AddJob(second);
  auto snapshot = draft.Finish();
  EXPECT_EQ(*snapshot->resuming_jobs, (std::vector<uint64_t>{2, 3}));
  Draft next(*snapshot);
  next.EditJob(3).state = JobState::kCancelled;
  next.AddCheckpoint({.job_id = 2, .state = CheckpointState::kCommitted});
  snapshot = next.Finish();
  EXPECT_EQ(*snapshot->resuming_jobs, std::vector<uint64_t>{2});
  Draft last(*snapshot);
  last.EditCheckpoint(2).state = CheckpointState::kVerified;
  snapshot = last.Finish();
  EXPECT_TRUE(snapshot->resuming_jobs->empty());
  Draft rebuilt(*snapshot);
  rebuilt.EditCheckpoint(2).state = CheckpointState::kCorrupt;
  rebuilt.RebuildJobLists();
  EXPECT_EQ(*rebuilt.view().resuming_jobs, std::vector<uint64_t>{2});
}

TEST(DraftTest, WhoHasSavedIsFoundByProjectAndName) {
  Draft draft{Snapshot()};
  for (int i = 0; i < 3; ++i) draft.AddJob(MakeJob());
  const std::string key = RunTimeKey(*MakeJob().settings);
  draft.AddCheckpoint({.job_id = 2, .state = CheckpointState::kCommitted});
  draft.AddCheckpoint({.job_id = 3, .state = CheckpointState::kWriting});
  EXPECT_EQ(draft.ResumableJobs(key), std::vector<uint64_t>{2}) << "within the draft";
  auto snapshot = draft.Finish();
  EXPECT_EQ(**snapshot->resumable_jobs.Find(key), std::vector<uint64_t>{2});
  Draft next(*snapshot);
  next.AddCheckpoint({.job_id = 1, .state = CheckpointState::kCommitted});
  next.EditCheckpoint(2).state = CheckpointState::kCommitted;
  EXPECT_EQ(next.ResumableJobs(key), (std::vector<uint64_t>{3, 2, 1}));
  EXPECT_TRUE(next.ResumableJobs("other/a").empty());
  snapshot = next.Finish();
  EXPECT_EQ(**snapshot->resumable_jobs.Find(key), (std::vector<uint64_t>{1, 2, 3}));
  Draft rebuilt(*snapshot);
  rebuilt.RebuildJobLists();
  EXPECT_EQ(**rebuilt.view().resumable_jobs.Find(key), (std::vector<uint64_t>{1, 2, 3}));
}

TEST(DraftTest, AJobIsFoundByItsNameInTheDraftThatMakesIt) {
  Draft draft{Snapshot()};
  draft.AddJob(MakeJob());
  EXPECT_EQ(draft.FindJobByName("a")->id, 1u);
  Draft next(*draft.Finish());
  EXPECT_EQ(next.FindJobByName("a")->id, 1u);
  next.AddJob(MakeJob());
  EXPECT_EQ(next.FindJobByName("a")->id, 2u);
  EXPECT_EQ(next.FindJobByName("b"), nullptr);
}

TEST(DraftTest, JobsAreFoundByTheirNewestName) {
  Draft draft{Snapshot()};
  draft.AddJob(MakeJob());
  draft.AddJob(MakeJob());
  const auto snapshot = draft.Finish();
  EXPECT_EQ(snapshot->FindJobByName("a")->id, 2u);
  EXPECT_EQ(snapshot->FindJobByName("b"), nullptr);
}

// An update that comes in one batch with the submit brings other settings, and the first ones go.
TEST(DraftTest, TheProjectOfANewJobOutlivesItsFirstSettings) {
  const std::string project(100, 'p');
  Draft draft{Snapshot()};
  Job job = MakeJob();
  auto settings = std::make_shared<JobSettings>(*job.settings);
  settings->project = project;
  job.settings = std::move(settings);
  const uint64_t id = draft.AddJob(std::move(job)).id;
  auto updated = std::make_shared<JobSettings>(*draft.view().FindJob(id)->settings);
  updated->priority = 7;
  draft.EditJob(id).settings = std::move(updated);
  EXPECT_EQ(draft.new_projects(), std::set<std::string>{project});
}

}  // namespace
}  // namespace muster::controller
