// Jobs that ended long ago leave the model and the database, and nothing else changes by it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/engine/applier.h"
#include "controller/engine/loops/archive_loop.h"
#include "controller/model/ledger_rules.h"
#include "controller/model/rank_origin.h"
#include "tests/support/controller_fixture.h"
#include "tests/support/model_invariants.h"

namespace muster::controller {
namespace {

using ::muster::testing::DescribeModel;
using ::muster::testing::IsOk;
using ::muster::testing::JobOptions;
using ::muster::testing::MakeSettings;
using ::muster::testing::ModelFaults;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void Ignore(const EventResult&) {}

class ArchiveJobsTest : public ::muster::testing::ControllerFixture {
 protected:
  void Archive(const ArchiveSettings& settings) {
    archive_ = settings;
    Restart();
  }
  // One that waits for workers that are not there.
  uint64_t SubmitWaiting(const std::string& name, const std::string& key = "") {
    return Submit({.min_ranks = 9, .wait_for_capacity = true, .key = key, .name = name});
  }
  uint64_t SubmitAndCancel(const std::string& name, const std::string& key = "") {
    const uint64_t id = SubmitWaiting(name, key);
    EXPECT_OK(Cancel(id));
    return id;
  }
  bool IsThere(uint64_t id) const { return snapshot()->FindJob(id) != nullptr; }
  void Pass(absl::Duration time) {
    clock_.Advance(time);
    RunUntilIdle();
  }
  // With its log, over what is in `to`.
  static void CopyDatabase(const std::string& name, const std::string& from,
                           const std::string& to) {
    for (const char* ending : {"", "-wal"}) {
      const std::string file = "/" + name + ending;
      std::filesystem::remove(to + file);
      if (!std::filesystem::exists(from + file)) continue;
      std::filesystem::copy_file(from + file, to + file);
    }
  }
  ArchivedJob Rows(uint64_t id) const { return RowsToArchive(*snapshot(), id); }
  ArchiveJobs Ended(uint64_t id) const { return {.groups = {{Rows(id)}}}; }
};

TEST_F(ArchiveJobsTest, WhatIsForgottenIsGoneAfterARestartToo) {
  Archive({.forget_after = absl::Hours(1)});
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t waits = SubmitWaiting("waits");
  const uint64_t ran = Submit({.name = "ran"});
  const Fence fence = StartRanks(one).fence;
  Pass(absl::Seconds(5));
  ReportExit(one, fence, 0, {.succeeded = true});
  ASSERT_EQ(state(ran), JobState::kSucceeded);
  const uint64_t cancelled = SubmitAndCancel("cancelled");
  const JobLedger ledger = job(ran).ledger;
  ASSERT_GE(ledger.settled.total(), absl::Seconds(5));
  const uint64_t last_event = snapshot()->last_event;
  Pass(absl::Minutes(59));
  EXPECT_TRUE(IsThere(ran));
  Pass(absl::Minutes(2));
  EXPECT_FALSE(IsThere(ran));
  EXPECT_FALSE(IsThere(cancelled));
  EXPECT_EQ(snapshot()->FindJobByName("ran"), nullptr);
  EXPECT_EQ(snapshot()->events.size(), job(waits).events.size());
  EXPECT_EQ(snapshot()->last_event, last_event);
  EXPECT_THAT(ModelFaults(*snapshot()), IsEmpty());

  const std::string before = DescribeModel(*snapshot());
  Restart();
  EXPECT_EQ(DescribeModel(*snapshot()), before);
  EXPECT_THAT(ModelFaults(*snapshot()), IsEmpty());
  EXPECT_EQ(snapshot()->archived_time->at("default").held, ledger.settled);
  const uint64_t next = SubmitWaiting("next");
  EXPECT_EQ(next, cancelled + 1) << "no number is given a second time";
  EXPECT_EQ(job(next).events.front()->sequence, last_event + 1);
  EXPECT_THAT(ModelFaults(*snapshot()), IsEmpty());
}

TEST_F(ArchiveJobsTest, TheKeyOfAForgottenJobBeginsANewOne) {
  Archive({.forget_after = absl::Hours(1)});
  const uint64_t first = SubmitAndCancel("a", "key");
  EXPECT_EQ(SubmitWaiting("a", "key"), first);
  Pass(absl::Hours(2));
  Pass(absl::Minutes(2));
  ASSERT_OK(engine_->history().OfKey("ann", "key").status());
  EXPECT_EQ(*engine_->history().OfKey("ann", "key"), 0u);
  const uint64_t second = SubmitWaiting("a", "key");
  EXPECT_NE(second, first);
  EXPECT_EQ(SubmitWaiting("a", "key"), second);
  Restart();
  EXPECT_EQ(SubmitWaiting("a", "key"), second);
}

// Who asked history.db before the job was there comes too late to find it in memory.
TEST_F(ArchiveJobsTest, AKeyIsKnownForAWhileAfterItsJobHasLeft) {
  Archive({.recent = 0});
  const uint64_t id = SubmitAndCancel("a", "key");
  Pass(kLeastKeptBeyondRecent);
  ASSERT_FALSE(IsThere(id));
  const SubmitJob again{
      .settings = MakeSettings({.min_ranks = 9, .wait_for_capacity = true, .name = "a"}),
      .owner = "ann",
      .idempotency_key = "key"};
  EXPECT_THAT(Apply(again).status, StatusIs(absl::StatusCode::kUnavailable));
  const auto archived = engine_->history().Find(id);
  ASSERT_OK(archived.status());
  EventResult restored;
  engine_->Post(RestoreJobs{{*archived}}, Ignore);
  engine_->Post(again, [&](const EventResult& result) { restored = result; });
  RunUntilIdle();
  EXPECT_OK(restored.status);
  EXPECT_TRUE(restored.already_existed);
  EXPECT_EQ(restored.job_id, id);
}

TEST_F(ArchiveJobsTest, BeyondTheBoundTheLongestEndedGo) {
  Archive({.recent = 3});
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) SubmitAndCancel(name);
  const uint64_t waits = SubmitWaiting("waits");
  EXPECT_EQ(snapshot()->jobs.size(), 7u) << "they have only just ended";
  Pass(kLeastKeptBeyondRecent);
  EXPECT_EQ(snapshot()->jobs.size(), 4u);
  for (const uint64_t id : {uint64_t{4}, uint64_t{5}, uint64_t{6}, waits}) {
    EXPECT_TRUE(IsThere(id)) << id;
  }
  Restart();
  EXPECT_EQ(snapshot()->jobs.size(), 4u);
}

TEST_F(ArchiveJobsTest, MoreThanABatchGoesBatchByBatch) {
  Archive({.forget_after = absl::Hours(1)});
  JobOptions options = {.min_ranks = 9, .wait_for_capacity = true};
  for (size_t i = 0; i < 2 * ArchiveJobs::kMost + 10; ++i) {
    options.name = absl::StrCat("job-", i);
    engine_->Post(SubmitJob{.settings = MakeSettings(options), .owner = "ann"}, Ignore);
  }
  RunUntilIdle();
  for (const uint64_t id : std::vector<uint64_t>(*snapshot()->active_jobs)) {
    engine_->Post(CancelJob{.job_id = id, .actor = "user:ann"}, Ignore);
  }
  RunUntilIdle();
  Pass(absl::Hours(2));
  EXPECT_EQ(snapshot()->jobs.size(), 0u);
  EXPECT_EQ(snapshot()->events.size(), 0u);
  Restart();
  EXPECT_EQ(snapshot()->jobs.last_id(), 2 * ArchiveJobs::kMost + 10);
}

TEST_F(ArchiveJobsTest, AnArrayGoesWholeAndAtOnce) {
  Archive({.recent = 5});
  const JobOptions options = {.min_ranks = 9, .wait_for_capacity = true, .name = "sweep"};
  const EventResult array =
      Apply(SubmitJob{.settings = MakeSettings(options),
                      .owner = "ann",
                      .array = ArrayRange{.first = 1, .last = ArchiveJobs::kMost + 20}});
  ASSERT_OK(array.status);
  EXPECT_EQ(snapshot()->jobs.size(), ArchiveJobs::kMost + 20);
  ASSERT_OK(Cancel(array.job_id + 7));
  EXPECT_EQ(snapshot()->jobs.size(), ArchiveJobs::kMost + 20);
  std::set<size_t> sizes;  // that anybody saw
  on_published_ = [&](const std::shared_ptr<const Snapshot>& now) {
    sizes.insert(now->jobs.size());
  };
  EXPECT_OK(
      Apply(CancelJob{.job_id = array.job_id, .actor = "user:ann", .whole_array = true}).status);
  Pass(kLeastKeptBeyondRecent);
  on_published_ = nullptr;
  EXPECT_THAT(sizes, ElementsAre(size_t{0}, ArchiveJobs::kMost + 20));
  EXPECT_EQ(snapshot()->arrays.Find(ArrayKey(array.job_id)), nullptr);
  EXPECT_EQ(snapshot()->by_name.Find("sweep"), nullptr);
  EXPECT_THAT(ModelFaults(*snapshot()), IsEmpty());
  Restart();
  EXPECT_THAT(ModelFaults(*snapshot()), IsEmpty());
}

// Each pair is applied in one batch.
TEST_F(ArchiveJobsTest, WhatCameInBetweenKeepsTheJob) {
  const uint64_t id = SubmitAndCancel("a");
  const ArchiveJobs proposal = Ended(id);
  engine_->Post(ControlJob{.verb = ControlJob::Verb::kRequeue,
                           .job_id = id,
                           .actor = "user:ann",
                           .request_id = "again"},
                Ignore);
  engine_->Post(proposal, Ignore);
  RunUntilIdle();
  ASSERT_TRUE(IsThere(id));
  EXPECT_EQ(state(id), JobState::kPending);
  Pass(absl::Seconds(1));
  ASSERT_OK(Cancel(id));
  Apply(proposal);
  EXPECT_TRUE(IsThere(id)) << "it ended anew";

  auto settings = std::make_shared<JobSettings>(
      *MakeSettings({.min_ranks = 9, .wait_for_capacity = true, .name = "after"}));
  settings->scheduling.after = {{.job_id = id, .on = SchedulingSettings::On::kEnd}};
  uint64_t waits = 0;
  engine_->Post(SubmitJob{.settings = settings, .owner = "ann"},
                [&](const EventResult& result) { waits = result.job_id; });
  engine_->Post(Ended(id), Ignore);
  RunUntilIdle();
  EXPECT_TRUE(IsThere(id)) << "a job waits for it";
  ASSERT_OK(Cancel(waits));
  Apply(Ended(id));
  EXPECT_FALSE(IsThere(id));
  EXPECT_THAT(ModelFaults(*snapshot()), IsEmpty());
}

TEST_F(ArchiveJobsTest, WhatComesAfterItFindsNothing) {
  const uint64_t id = SubmitAndCancel("a", "key");
  engine_->Post(Ended(id), Ignore);
  EventResult again;
  engine_->Post(
      SubmitJob{.settings = MakeSettings({.min_ranks = 9, .wait_for_capacity = true, .name = "a"}),
                .owner = "ann",
                .idempotency_key = "key"},
      [&](const EventResult& result) { again = result; });
  EventResult cancelled;
  engine_->Post(CancelJob{.job_id = id, .actor = "user:ann"},
                [&](const EventResult& result) { cancelled = result; });
  RunUntilIdle();
  EXPECT_THAT(again.status, StatusIs(absl::StatusCode::kUnavailable)) << "it may be restored";
  EXPECT_THAT(cancelled.status, StatusIs(absl::StatusCode::kNotFound));
  EXPECT_FALSE(IsThere(id));
  Restart();
  EXPECT_EQ(SubmitWaiting("a", "key"), id + 1);
  EXPECT_THAT(ModelFaults(*snapshot()), IsEmpty());
}

TEST_F(ArchiveJobsTest, APinOutlivesTheArchiveAndWhatIsRemovedThereIsDeleted) {
  Archive({.recent = 0});
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit({.name = "saves"});
  const Fence fence = StartRanks(one).fence;
  for (const int64_t step : {10, 20}) {
    ASSERT_OK(Apply(MakeCommit(one, fence, step)).status);
    AnswerVerify(one, true);
  }
  ReportExit(one, fence, 0, {.succeeded = true, .last_step = 20});
  ASSERT_EQ(state(id), JobState::kSucceeded);
  // As the API does: what the event needs comes back with it, and leaves again.
  const auto control = [&](ControlCheckpoint::Verb verb) {
    Pass(kLeastKeptBeyondRecent);
    ASSERT_FALSE(IsThere(id));
    const auto archived = engine_->history().Find(id);
    ASSERT_OK(archived.status());
    EventResult answer{.status = absl::UnknownError("not answered")};
    std::vector<Engine::Posted> post;
    post.push_back(
        {.event = ControlCheckpoint{.verb = verb, .checkpoint_id = 1, .actor = "user:ann"},
         .done = [&answer](const EventResult& result) { answer = result; },
         .restore = {std::make_shared<const RestoreJobs>(RestoreJobs{.jobs = {*archived}})}});
    engine_->PostAll(std::move(post));
    RunUntilIdle();
    EXPECT_OK(answer.status);
  };
  control(ControlCheckpoint::Verb::kPin);
  EXPECT_FALSE(IsThere(id));
  Restart();
  EXPECT_EQ(engine_->history().Find(id)->checkpoints[0]->pinned_by, "user:ann");
  control(ControlCheckpoint::Verb::kUnpin);
  EXPECT_EQ(engine_->history().Find(id)->checkpoints[0]->pinned_by, "");
  control(ControlCheckpoint::Verb::kRemove);
  EXPECT_TRUE(IsThere(id)) << "until it is deleted";
  Agent reborn = MakeReborn(one);
  EXPECT_OK(Connect(reborn).status);
  EXPECT_EQ(Take<DeleteAssignment>(reborn).checkpoint_id, 1u);
  EXPECT_OK(Apply(DeleteReport{.worker = reborn.name,
                               .incarnation = reborn.incarnation,
                               .event_seq = ++reborn.event_seq,
                               .outbox_seq = last_seq_,
                               .checkpoint_id = 1,
                               .ok = true})
                .status);
  Pass(kLeastKeptBeyondRecent);
  EXPECT_FALSE(IsThere(id));
  EXPECT_EQ(engine_->history().Find(id)->checkpoints[0]->state, CheckpointState::kDeleted);
  EXPECT_THAT(ModelFaults(*snapshot()), IsEmpty());
}

TEST_F(ArchiveJobsTest, AJobComesBackAsItWas) {
  Archive({.recent = 0});
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit({.key = "key", .name = "saves"});
  const Fence fence = StartRanks(one).fence;
  ASSERT_OK(Apply(MakeCommit(one, fence, 10)).status);
  AnswerVerify(one, true);
  ReportExit(one, fence, 0, {.succeeded = true, .last_step = 10});
  ASSERT_EQ(state(id), JobState::kSucceeded);
  const uint64_t source = job(id).checkpoints.front();
  auto settings = std::make_shared<JobSettings>(
      *MakeSettings({.min_ranks = 9, .wait_for_capacity = true, .name = "goes-on"}));
  const EventResult next =
      Apply(SubmitJob{.settings = settings, .owner = "ann", .resume = ResumeRequest{.job_id = id}});
  ASSERT_OK(next.status);
  ASSERT_OK(Cancel(next.job_id));
  const std::string before = DescribeModel(*snapshot());
  Pass(kLeastKeptBeyondRecent);
  Pass(absl::Hours(2));  // the second one has to be gone first
  ASSERT_FALSE(IsThere(id));
  ASSERT_FALSE(IsThere(next.job_id));
  EXPECT_EQ(snapshot()->FindCheckpoint(source), nullptr);
  EXPECT_EQ(engine_->history().jobs(), 2u);
  EXPECT_THAT(ModelFaults(*snapshot()), IsEmpty());
  // Its last metrics may come late.
  const RankKey rank{id, 1, 1, 0};
  EXPECT_TRUE(*WasPlacedOn(*snapshot(), engine_->history(), rank, "worker-1"));
  EXPECT_FALSE(*WasPlacedOn(*snapshot(), engine_->history(), rank, "worker-2"));
  EXPECT_FALSE(*WasPlacedOn(*snapshot(), engine_->history(), {id + 9, 1, 1, 0}, "worker-1"));
  Restart();
  RestoreJobs back;
  for (const uint64_t archived : {id, next.job_id}) {
    const auto found = engine_->history().Find(archived);
    ASSERT_OK(found.status());
    back.jobs.push_back(*found);
  }
  EXPECT_THAT(Apply(RestoreJobs{{back.jobs[1]}}).status,
              StatusIs(absl::StatusCode::kFailedPrecondition))
      << "what it begins from is not here";
  archive_ = {};
  Restart();
  ASSERT_OK(Apply(back).status);
  ASSERT_OK(Apply(back).status) << "those that are here stay";
  EXPECT_EQ(job(id).checkpoints, std::vector<uint64_t>{source});
  EXPECT_EQ(snapshot()->FindCheckpoint(source)->state, CheckpointState::kVerified);
  EXPECT_EQ(job(id).ledger.settled, back.jobs[0].job->ledger.settled);
  EXPECT_EQ(snapshot()->FindJobByName("saves")->id, id);
  EXPECT_THAT(ModelFaults(*snapshot()), IsEmpty());
  const std::string restored = DescribeModel(*snapshot());
  Restart();
  EXPECT_EQ(DescribeModel(*snapshot()), restored);
  EXPECT_THAT(ModelFaults(*snapshot()), IsEmpty());
  ASSERT_OK(Apply(ControlJob{.verb = ControlJob::Verb::kRequeue,
                             .job_id = next.job_id,
                             .actor = "user:ann",
                             .request_id = "again"})
                .status);
}

TEST_F(ArchiveJobsTest, AJobOfAnotherStateDoesNotComeBack) {
  const uint64_t id = SubmitAndCancel("a");
  ArchivedJob rows = Rows(id);
  Apply(Ended(id));
  ASSERT_FALSE(IsThere(id));
  auto other = std::make_shared<Job>(*rows.job);
  other->id = id + 7;
  EXPECT_THAT(Apply(RestoreJobs{{{.job = other}}}).status,
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_OK(Apply(RestoreJobs{{rows}}).status);
  EXPECT_TRUE(IsThere(id));
}

TEST_F(ArchiveJobsTest, AllJobsOfARestoreComeBackOrNone) {
  const uint64_t first = SubmitAndCancel("a");
  const uint64_t second = SubmitAndCancel("b");
  RestoreJobs back{.jobs = {Rows(first), Rows(second)}};
  Apply(Ended(first));
  Apply(Ended(second));
  auto other = std::make_shared<Job>(*back.jobs[1].job);
  other->id = second + 7;
  EXPECT_THAT(Apply(RestoreJobs{{back.jobs[0], {.job = other}}}).status,
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_FALSE(IsThere(first));
  EXPECT_OK(Apply(back).status);
  EXPECT_TRUE(IsThere(first));
  EXPECT_TRUE(IsThere(second));
}

// The key of its job was archived after it had looked, and has left the index since.
TEST_F(ArchiveJobsTest, ASubmitThatWaitedLongLooksForItsKeyAgain) {
  SubmitJob submit{
      .settings = MakeSettings({.min_ranks = 9, .wait_for_capacity = true, .name = "a"}),
      .owner = "ann",
      .idempotency_key = "key"};
  submit.key_sought_at = clock_.SinceBoot();
  const uint64_t id = SubmitAndCancel("a", "key");
  Apply(Ended(id));
  ASSERT_FALSE(IsThere(id));
  Pass(kArchivedKeyKept);
  EXPECT_THAT(Apply(submit).status, StatusIs(absl::StatusCode::kUnavailable));
  submit.key_sought_at = clock_.SinceBoot();
  EXPECT_OK(Apply(submit).status) << "now it found nothing: the job is forgotten";
}

// A history.db was lost, the key was used again, and the file came back.
TEST_F(ArchiveJobsTest, AJobWhoseKeyALaterOneHasDoesNotComeBack) {
  const uint64_t first = SubmitAndCancel("a", "key");
  const ArchivedJob rows = Rows(first);
  Apply(Ended(first));
  ASSERT_FALSE(IsThere(first));
  Pass(kArchivedKeyKept);
  const uint64_t second = SubmitWaiting("a", "key");
  ASSERT_NE(second, first);
  EXPECT_THAT(Apply(RestoreJobs{{rows}}).status,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("idempotency key")));
  EXPECT_THAT(ModelFaults(*snapshot()), IsEmpty());
}

TEST_F(ArchiveJobsTest, WhatNeedsAJobThatIsNotRestoredIsRefusedWithIt) {
  const uint64_t id = SubmitAndCancel("a");
  const ArchivedJob rows = Rows(id);
  Apply(Ended(id));
  ASSERT_FALSE(IsThere(id));
  const auto requeue = [&](const RestoreJobs& restore) {
    EventResult answer;
    std::vector<Engine::Posted> post;
    post.push_back({.event = ControlJob{.verb = ControlJob::Verb::kRequeue,
                                        .job_id = id,
                                        .actor = "user:ann",
                                        .request_id = "again"},
                    .done = [&](const EventResult& result) { answer = result; },
                    .restore = {std::make_shared<const RestoreJobs>(restore)}});
    engine_->PostAll(std::move(post));
    RunUntilIdle();
    return answer.status;
  };
  EXPECT_THAT(requeue({.needed = {id}}), StatusIs(absl::StatusCode::kUnavailable))
      << "it was here when somebody looked";
  auto other = std::make_shared<Job>(*rows.job);
  other->id = id + 7;
  EXPECT_THAT(requeue({.jobs = {{.job = other}}, .needed = {id + 7}}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another state")));
  EXPECT_OK(requeue({.jobs = {rows}, .needed = {id}}));
  EXPECT_EQ(state(id), JobState::kPending);
}

// The key of a job that left, came back, left and was forgotten is the next one's.
TEST_F(ArchiveJobsTest, TheKeyOfALaterJobIsNotDropped) {
  const uint64_t first = SubmitAndCancel("a", "key");
  const ArchivedJob rows = Rows(first);
  Apply(Ended(first));
  Pass(kArchivedKeyKept / 2);
  ASSERT_OK(Apply(RestoreJobs{{rows}}).status);
  Apply(Ended(first));
  Pass(kArchivedKeyKept / 2);
  const uint64_t second = SubmitWaiting("b");  // the first entry is dropped
  ASSERT_NE(second, first);
  uint64_t third = SubmitWaiting("a", "key");
  ASSERT_NE(third, first);
  Pass(kArchivedKeyKept);
  SubmitWaiting("c");
  EXPECT_EQ(SubmitWaiting("a", "key"), third);
}

TEST_F(ArchiveJobsTest, ALostHistoryForgetsNobody) {
  Archive({.recent = 0});
  const uint64_t id = SubmitAndCancel("a");
  Pass(kLeastKeptBeyondRecent);
  ASSERT_FALSE(IsThere(id));
  EXPECT_EQ(engine_->history().began_after_job(), 0u);
  engine_.reset();
  for (const char* file : {"/history.db", "/history.db-wal"}) {
    std::filesystem::remove(dir_.path() + file);
  }
  Restart();
  EXPECT_EQ(engine_->history().began_after_job(), id) << "metrics of these are kept";
}

TEST_F(ArchiveJobsTest, AnOlderCopyOfTheHistoryForgetsNobody) {
  Archive({.recent = 0});
  const auto archive_one = [this](const char* name) {
    const uint64_t id = SubmitAndCancel(name);
    Pass(kLeastKeptBeyondRecent);
    EXPECT_FALSE(IsThere(id));
    return id;
  };
  archive_one("a");
  TempDir backup;
  engine_.reset();
  CopyDatabase("history.db", dir_.path(), backup.path());
  Restart();
  EXPECT_EQ(engine_->history().began_after_job(), 0u) << "it is whole";
  const uint64_t lost = archive_one("b");
  engine_.reset();
  CopyDatabase("history.db", backup.path(), dir_.path());
  Restart();
  EXPECT_EQ(engine_->history().began_after_job(), lost) << "metrics of these are kept";
  Restart();
  EXPECT_EQ(engine_->history().began_after_job(), lost);
  archive_one("c");
  Restart();
  EXPECT_EQ(engine_->history().began_after_job(), lost) << "nothing was lost since";
}

// state.db was restored from a backup, and history.db was not.
TEST_F(ArchiveJobsTest, NumbersOfArchivedJobsAreNotGivenAgain) {
  Archive({.recent = 0});
  TempDir backup;
  engine_.reset();
  CopyDatabase("state.db", dir_.path(), backup.path());
  Restart();
  const uint64_t id = SubmitAndCancel("a");
  Pass(kLeastKeptBeyondRecent);
  ASSERT_FALSE(IsThere(id));
  const uint64_t last_event = snapshot()->last_event;
  engine_.reset();
  CopyDatabase("state.db", backup.path(), dir_.path());
  Restart();
  EXPECT_EQ(snapshot()->last_event, last_event);
  EXPECT_EQ(SubmitWaiting("b"), id + 1);
  Restart();
  EXPECT_EQ(snapshot()->jobs.last_id(), id + 1);
  EXPECT_THAT(ModelFaults(*snapshot()), IsEmpty());
}

TEST_F(ArchiveJobsTest, WhatWasLearnedGoesWithTheLastJobThatTaughtIt) {
  Agent one = ConnectNew("worker-1", 1);
  std::vector<uint64_t> ids;
  for (int i = 0; i < 2; ++i) {
    ids.push_back(Submit({.name = "nightly"}));
    const Fence fence = StartRanks(one).fence;
    Pass(absl::Seconds(5));
    ReportExit(one, fence, 0, {.succeeded = true});
  }
  const std::string key = RunTimeKey(*job(ids[0]).settings);
  Apply(Ended(ids[0]));
  ASSERT_FALSE(IsThere(ids[0]));
  ASSERT_NE(snapshot()->run_times.Find(key), nullptr);
  Apply(Ended(ids[1]));
  ASSERT_FALSE(IsThere(ids[1]));
  EXPECT_EQ(snapshot()->run_times.Find(key), nullptr);
}

TEST_F(ArchiveJobsTest, WhatIsRestoredTeachesNoNewerRunTime) {
  Agent one = ConnectNew("worker-1", 1);
  std::vector<ArchivedJob> rows;
  std::string key;
  for (const absl::Duration ran : {absl::Seconds(5), absl::Minutes(5)}) {
    const uint64_t id = Submit({.name = "nightly"});
    const Fence fence = StartRanks(one).fence;
    Pass(ran);
    ReportExit(one, fence, 0, {.succeeded = true});
    key = RunTimeKey(*job(id).settings);
    rows.push_back(Rows(id));
  }
  const absl::Duration newest = snapshot()->run_times.Find(key)->runs[0];
  ASSERT_GE(newest, absl::Minutes(5));
  Apply(Ended(rows[0].job->id));
  EXPECT_OK(Apply(RestoreJobs{{rows[0]}}).status);
  EXPECT_EQ(snapshot()->run_times.Find(key)->runs[0], newest);
  EXPECT_EQ(snapshot()->run_times.Find(key)->jobs, 2u);
}

}  // namespace
}  // namespace muster::controller
