// What the tables say about each other. That a whole model comes back is in engine/restart_test.
#include "controller/store/state_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/status_macros.h"
#include "controller/model/ledger_rules.h"
#include "controller/store/row_codec.h"
#include "controller/store/settings_codec.h"
#include "controller/store/state_schema.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class StateStoreTest : public ::testing::Test {
 protected:
  absl::StatusOr<Snapshot> Load() {
    MUSTER_ASSIGN_OR_RETURN(auto store, StateStore::Open({.path = path_}));
    return store->Load(1, absl::Hours(1), absl::UnixEpoch());
  }
  // A job with one event.
  void StoreJob(const JobSettings& settings = {}) {
    auto store = StateStore::Open({.path = path_});
    ASSERT_OK(store);
    Draft draft{Snapshot()};
    Job job;
    job.settings = std::make_shared<const JobSettings>(settings);
    draft.AddJob(std::move(job));
    draft.AddEvent({.job_id = 1, .time = absl::UnixEpoch()});
    ASSERT_OK((*store)->Append(draft.Changes()));
  }
  // Spoils the file behind the store's back.
  void Execute(const char* sql) {
    auto db = SqliteDatabase::Open({.path = path_}, StateMigrations());
    ASSERT_OK(db);
    ASSERT_OK((*db)->Prepare(sql).Run());
  }

  testing::TempDir dir_;
  std::string path_ = dir_ / "state.db";
};

TEST_F(StateStoreTest, TheTermIsDurable) {
  for (uint64_t term = 1; term <= 3; ++term) {
    auto store = StateStore::Open({.path = path_});
    ASSERT_OK(store);
    EXPECT_EQ(*(*store)->StartTerm(), term);
  }
}

TEST_F(StateStoreTest, EachDatabaseHasAnIdOfItsOwn) {
  const auto id_of = [](const std::string& path) {
    auto store = StateStore::Open({.path = path});
    EXPECT_OK(store);
    return *(*store)->ControllerId();
  };
  const std::string id = id_of(path_);
  EXPECT_EQ(id.size(), 16u);
  EXPECT_EQ(id_of(path_), id);
  EXPECT_NE(id_of(dir_ / "anew.db"), id);
}

TEST_F(StateStoreTest, AnInfiniteProgressTimeoutStaysInfinite) {
  StoreJob();
  const auto snapshot = Load();
  ASSERT_OK(snapshot);
  EXPECT_EQ(snapshot->FindJob(1)->settings->restart.progress_timeout, absl::InfiniteDuration());
  EXPECT_EQ(snapshot->FindJob(1)->started, absl::InfinitePast());
}

// An older Muster noted the wall clock's times: what lies ahead of ledger time loses its worth from
// now on, and not only once that time has come.
TEST_F(StateStoreTest, UseThatWasNotedAheadOfTimeCountsFromNow) {
  const std::string quotas =
      R"(, 1, '{"project":[null,null],"each_user":[null,null],"users":{}}', )";
  for (const char* row : {"'ahead'?8, 3600000", "'before'?8, -3600000", "'never'?0, NULL"}) {
    const std::string values = absl::StrReplaceAll(row, {{"?", quotas}});
    Execute(absl::StrCat("INSERT INTO projects VALUES (", values, ")").c_str());
  }
  const auto snapshot = Load();
  ASSERT_OK(snapshot);
  EXPECT_EQ(snapshot->FindProject("ahead")->used.at, snapshot->LedgerTime(absl::Hours(1)));
  EXPECT_EQ(snapshot->FindProject("before")->used.at, absl::UnixEpoch() - absl::Hours(1));
  EXPECT_EQ(snapshot->FindProject("never")->used.at, absl::InfinitePast());
}

TEST_F(StateStoreTest, TheSpecIsKeptResolvedAndAsItWasWritten) {
  JobSettings settings;
  settings.spec = std::string("resolved\0", 9);
  settings.written_spec = std::string("\0written", 8);
  StoreJob(settings);
  const auto snapshot = Load();
  ASSERT_OK(snapshot);
  EXPECT_EQ(snapshot->FindJob(1)->settings->spec, settings.spec);
  EXPECT_EQ(snapshot->FindJob(1)->settings->written_spec, settings.written_spec);
}

TEST_F(StateStoreTest, TextThatWasCutInsideACharacterIsRepaired) {
  StoreJob();
  Execute("UPDATE jobs SET message = CAST(x'61c3' AS TEXT)");
  Execute("UPDATE events SET message = CAST(x'62c3' AS TEXT)");
  const auto snapshot = Load();
  ASSERT_OK(snapshot);
  EXPECT_EQ(snapshot->FindJob(1)->message, "a?");
  EXPECT_EQ(snapshot->FindJob(1)->events.at(0)->message, "b?");
}

TEST_F(StateStoreTest, AGapInTheEventsIsDataLoss) {
  StoreJob();
  Execute("UPDATE events SET sequence = 2");
  EXPECT_THAT(Load().status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("event 1 is missing")));
}

TEST_F(StateStoreTest, AJobThatItsEventsDoNotExplainIsDataLoss) {
  StoreJob();
  Execute("UPDATE jobs SET state = 3");
  EXPECT_THAT(Load().status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("job 1 is RUNNING")));
}

TEST_F(StateStoreTest, AnOutboxRowThatRefersToNothingIsDataLoss) {
  StoreJob();
  Execute("INSERT INTO outbox VALUES (1, 'w', x'00', 1, 7, 1, 1, 1, 1, 0, '', 0)");
  EXPECT_THAT(Load().status(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("outbox row 1")));
}

TEST_F(StateStoreTest, ABrokenValueIsDataLoss) {
  StoreJob();
  Execute("UPDATE jobs SET settings = '{\"priority\":\"x\"}'");
  EXPECT_THAT(Load().status(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("broken value")));
}

TEST_F(StateStoreTest, AMissingRankIsDataLoss) {
  StoreJob();
  Execute(
      "INSERT INTO attempts VALUES (1, 1, 1, 1, 0, NULL, 0, '', 0, 0, 0, 0, 0, '[]', 0, -1, -1, "
      "-1, 0, NULL, NULL)");
  Execute(
      "INSERT INTO ranks VALUES (1, 1, 1, 'w', x'00', 0, 1, 0, 1, 0, 0, 0, 0, '[0]', NULL, NULL)");
  EXPECT_THAT(Load().status(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("lacks a rank")));
}

// What version 0.1.0 wrote.
TEST_F(StateStoreTest, AFileOfTheFirstSchemaIsCarriedOver) {
  {
    auto db = SqliteDatabase::Open({.path = path_}, {StateMigrations().front()});
    ASSERT_OK(db);
    ASSERT_OK((*db)
                  ->Prepare("INSERT INTO jobs VALUES (1, 'j', 'p', 'o', 'k', 7, 2, 3, 2, 'spot',"
                            " '{\"zone\":\"a\"}', 1, 4, 1000, 2000, NULL, 5, '/c',"
                            " '{\"tags\":{\"team\":\"a\"}}', 1, 1,"
                            " 'queued', 0, NULL, NULL, 1, 0, 0, 0, '', 0, 0, 0, 0, 0, -1, '{}',"
                            " '{}')")
                  .Run());
    ASSERT_OK(
        (*db)->Prepare("INSERT INTO events VALUES (1, 1, 0, 1, 1, 1, 'user:o', '', 0)").Run());
    // It waits, and has run nowhere.
    ASSERT_OK((*db)
                  ->Prepare("INSERT INTO jobs VALUES (2, 'j', 'p', 'o', 'k2', 7, 2, 3, 2, 'spot',"
                            " '{}', 1, 4, 1000, 2000, NULL, 5, '/c', '{}', 1, 1, 'queued', 0, NULL,"
                            " NULL, 0, 0, 0, 0, '', 0, 0, 0, 0, 0, -1, '{}', '{}')")
                  .Run());
    ASSERT_OK(
        (*db)->Prepare("INSERT INTO events VALUES (2, 2, 0, 1, 1, 1, 'user:o', '', 0)").Run());
    ASSERT_OK((*db)
                  ->Prepare("INSERT INTO attempts VALUES (1, 1, 1, 1, 0, NULL, 0, '', 0, 0, 0, 0,"
                            " 0, '[]')")
                  .Run());
    ASSERT_OK((*db)
                  ->Prepare("INSERT INTO ranks VALUES (1, 1, 0, 'w', x'00', 6, 0, 1, 0, 1, 0, 0,"
                            " 0, 0)")
                  .Run());
    ASSERT_OK((*db)
                  ->Prepare("INSERT INTO checkpoints VALUES (1, 1, 5, 1, 2, '/c/job-1/step-5', 1,"
                            " 'sha', 0, 0, '{}', 7000, NULL, 0, '')")
                  .Run());
  }
  const auto snapshot = Load();
  ASSERT_OK(snapshot);
  const Job& job = *snapshot->FindJob(1);
  EXPECT_EQ(job.settings->name, "j");
  EXPECT_EQ(job.settings->priority, 7);
  EXPECT_EQ(job.settings->needs.min_ranks, 2u);
  EXPECT_EQ(job.settings->needs.max_ranks, 3u);
  EXPECT_EQ(job.settings->needs.slot_kind, SlotKind::kGpu);
  EXPECT_EQ(job.settings->needs.pools.at(0).name, "spot");
  EXPECT_EQ(job.settings->needs.selector.at("zone"), "a");
  EXPECT_TRUE(job.settings->needs.wait_for_capacity);
  EXPECT_EQ(job.settings->restart.max_restarts, 4u);
  EXPECT_EQ(job.settings->restart.max_backoff, absl::Seconds(2));
  EXPECT_EQ(job.settings->restart.progress_timeout, absl::InfiniteDuration());
  EXPECT_EQ(job.settings->keep_last, 5u);
  EXPECT_THAT(job.settings->tags, ElementsAre(Pair("team", "a")));
  EXPECT_EQ(job.settings->spec, "{\"tags\":{\"team\":\"a\"}}");
  EXPECT_EQ(job.current->ranks.at(0).slots, std::vector<uint32_t>{6});
  EXPECT_EQ(job.checkpoint_folder(), "/c/job-1") << "its checkpoints are there";
  EXPECT_EQ(snapshot->FindJob(2)->folder_tag.size(), 12u) << "it has none yet";
  EXPECT_EQ(job.current->held_from, absl::InfinitePast()) << "nobody noted it";
  EXPECT_EQ(job.events.at(0)->at, absl::InfinitePast()) << "likewise";
  EXPECT_EQ(HappenedAt(*job.events.at(0)), absl::UnixEpoch()) << "by the wall clock";
  const Checkpoint& saved = *snapshot->FindCheckpoint(1);
  EXPECT_EQ(saved.created_at, absl::InfinitePast()) << "likewise";
  EXPECT_EQ(CreatedAt(saved), absl::FromUnixSeconds(7));
}

TEST(SettingsCodecTest, EverySettingComesBack) {
  JobSettings settings;
  settings.name = "n";
  settings.project = "p";
  settings.priority = -3;
  settings.keep_last = 4;
  settings.needs = {.min_ranks = 2,
                    .max_ranks = 3,
                    .slot_kind = SlotKind::kGpu,
                    .slots_per_rank = 4,
                    .gpu_type = "H100",
                    .cpus_per_rank = 5,
                    .memory_per_rank = 1ull << 40,
                    .pools = {{"spot", {}}, {"ondemand", absl::Minutes(10)}},
                    .selector = {{"zone", "a"}},
                    .exclude = {"w1"},
                    .wait_for_capacity = true,
                    .commands = true,
                    .image = JobNeeds::Image::kFile};
  settings.tags = {{"team", "a"}, {"why", "\"no\""}};
  settings.upload = std::string(64, 'a');
  settings.resume_from = {9, 7};
  settings.scheduling = {.preemptible = false,
                         .max_run_time = absl::Hours(1),
                         .expected_run_time = absl::Minutes(1),
                         .deadline = absl::FromUnixSeconds(10),
                         .begin = absl::FromUnixSeconds(5),
                         .after = {{.job_id = 9, .on = SchedulingSettings::On::kFailure}},
                         .hold = true};
  settings.restart = {.max_restarts = 6,
                      .budgets = {{FailureClass::kHang, 1}},
                      .backoff = absl::Seconds(1),
                      .max_backoff = absl::Seconds(2),
                      .progress_timeout = absl::InfiniteDuration()};
  const std::string text = EncodeSettings(settings);
  const auto back = DecodeSettings(text);
  ASSERT_OK(back);
  EXPECT_EQ(EncodeSettings(*back), text);
  EXPECT_TRUE(back->needs.commands);
  EXPECT_EQ(back->needs.image, JobNeeds::Image::kFile);
  EXPECT_EQ(back->upload, settings.upload);
  EXPECT_EQ(back->resume_from, settings.resume_from);
  EXPECT_TRUE(DecodeSettings("{}")->resume_from.empty()) << "as older rows have it";
  EXPECT_EQ(DecodeSettings("{\"resume_from\":[\"x\"]}").status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(back->tags, settings.tags);
  EXPECT_EQ(back->needs.pools, settings.needs.pools);
  EXPECT_EQ(back->scheduling.after, settings.scheduling.after);
  EXPECT_EQ(back->scheduling.deadline, settings.scheduling.deadline);
  EXPECT_EQ(back->scheduling.max_run_time, absl::Hours(1));
  EXPECT_EQ(back->restart.budgets, settings.restart.budgets);
  EXPECT_EQ(back->needs.memory_per_rank, 1ull << 40);
  EXPECT_FALSE(back->scheduling.preemptible);
}

TEST_F(StateStoreTest, AnAppendIsStoredWholeOrNotAtAll) {
  auto store = StateStore::Open({.path = path_});
  ASSERT_OK(store);
  Draft draft{Snapshot()};
  Job job;
  job.settings = std::make_shared<const JobSettings>();
  draft.AddJob(std::move(job));
  draft.AddEvent({.job_id = 1, .time = absl::UnixEpoch()});
  ChangeSet changes = draft.Changes();
  changes.events.push_back(changes.events[0]);  // the same sequence twice cannot be stored
  const absl::Status status = (*store)->Append(changes);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal));
  const auto snapshot = (*store)->Load(1, absl::ZeroDuration(), absl::UnixEpoch());
  ASSERT_OK(snapshot);
  EXPECT_EQ(snapshot->jobs.size(), 0u);
}

class ForgottenRowsTest : public StateStoreTest {
 protected:
  // Two jobs with two events each; the second has ended later, with a checkpoint that is deleted.
  static std::shared_ptr<const Snapshot> StoreTwo(StateStore& store) {
    Draft submits{Snapshot(), absl::Hours(1)};
    for (uint64_t id = 1; id <= 2; ++id) {
      Job job;
      job.owner = "ann";
      job.idempotency_key = absl::StrCat("key-", id);
      auto settings = std::make_shared<JobSettings>();
      settings->name = absl::StrCat("job-", id);
      settings->project = "p";
      job.settings = settings;
      submits.AddJob(std::move(job));
      submits.AddEvent({.job_id = id, .time = absl::UnixEpoch()});
    }
    submits.AddEvent({.job_id = 1, .time = absl::UnixEpoch()});
    EXPECT_OK(store.Append(submits.Changes()));
    Draft end(*submits.Finish(), absl::Hours(3));
    Rank rank;
    rank.worker = "w";
    rank.incarnation = std::string(16, 'i');
    rank.state = RankState::kExited;
    rank.holds_slots = false;
    end.AddAttempt(2, {.number = 1, .ended = absl::UnixEpoch(), .ranks = {rank}});
    end.AddCheckpoint({.job_id = 2, .step = 5, .state = CheckpointState::kDeleted, .path = "/c"});
    end.EditJob(2).state = JobState::kCancelled;
    end.AddEvent({.job_id = 2, .time = absl::UnixEpoch(), .to = JobState::kCancelled});
    EXPECT_OK(store.Append(end.Changes()));
    return end.Finish();
  }
};

TEST_F(ForgottenRowsTest, AJobGoesWholeOrNotAtAll) {
  auto store = StateStore::Open({.path = path_});
  ASSERT_OK(store);
  Draft draft(*StoreTwo(**store), absl::Hours(4));
  draft.ArchiveJob(2, 0);
  const ChangeSet changes = draft.Changes();
  ChangeSet spoiled = changes;
  auto twice = std::make_shared<const JobEvent>(JobEvent{.sequence = 9, .job_id = 1});
  spoiled.events = {twice, twice};  // the same sequence twice cannot be stored
  EXPECT_FALSE((*store)->Append(spoiled).ok());
  auto loaded = (*store)->Load(1, absl::Hours(1), absl::UnixEpoch());
  ASSERT_OK(loaded);
  ASSERT_NE(loaded->FindJob(2), nullptr);
  EXPECT_EQ(loaded->FindJob(2)->events.size(), 2u);
  EXPECT_EQ(loaded->FindJob(2)->checkpoints.size(), 1u);
  EXPECT_EQ(loaded->FindJob(2)->current->ranks.size(), 1u);
  EXPECT_EQ(loaded->archived_events, 0u);

  ASSERT_OK((*store)->Append(changes));
  loaded = (*store)->Load(1, absl::Hours(1), absl::UnixEpoch());
  ASSERT_OK(loaded);
  EXPECT_EQ(loaded->jobs.size(), 1u);
  EXPECT_EQ(loaded->checkpoints.size(), 0u);
  EXPECT_EQ(loaded->events.size(), 2u);
  EXPECT_EQ(loaded->archived_events, 2u);
  // No number is given a second time.
  EXPECT_EQ(loaded->jobs.last_id(), 2u);
  EXPECT_EQ(loaded->checkpoints.last_id(), 1u);
  EXPECT_EQ(loaded->last_event, 4u);
  EXPECT_EQ(loaded->LedgerTime(absl::Hours(1)), absl::UnixEpoch() + absl::Hours(3))
      << "its ledger had come so far";
  EXPECT_EQ(loaded->archived_time->at("p").queued, changes.archived.time.at("p").queued);
}

TEST_F(ForgottenRowsTest, TheKeyOfAForgottenJobIsFreeInTheSameTransaction) {
  auto store = StateStore::Open({.path = path_});
  ASSERT_OK(store);
  Draft draft(*StoreTwo(**store), absl::Hours(4));
  draft.ArchiveJob(2, 0);
  Job job;
  job.owner = "ann";
  job.idempotency_key = "key-2";
  job.settings = std::make_shared<const JobSettings>();
  EXPECT_EQ(draft.AddJob(std::move(job)).id, 3u);
  draft.AddEvent({.job_id = 3, .time = absl::UnixEpoch()});
  ASSERT_OK((*store)->Append(draft.Changes()));
  const auto loaded = (*store)->Load(1, absl::Hours(1), absl::UnixEpoch());
  ASSERT_OK(loaded);
  EXPECT_EQ(loaded->FindJob(3)->idempotency_key, "key-2");
}

TEST_F(ForgottenRowsTest, AnEventOfAJobThatIsThereMustNotBeMissing) {
  {
    auto store = StateStore::Open({.path = path_});
    ASSERT_OK(store);
    Draft draft(*StoreTwo(**store), absl::Hours(4));
    draft.ArchiveJob(2, 0);
    ASSERT_OK((*store)->Append(draft.Changes()));
  }
  ASSERT_OK(Load());
  Execute("DELETE FROM events WHERE sequence = 3");
  EXPECT_THAT(Load().status(), StatusIs(absl::StatusCode::kDataLoss,
                                        HasSubstr("of 4 events 1 are there and 2 are archived")));
}

TEST_F(ForgottenRowsTest, BrokenTimesAreDataLoss) {
  Execute("INSERT INTO forgotten_time VALUES ('p', '1 2 3')");
  EXPECT_THAT(Load().status(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("broken times")));
}

TEST(ReplayEventsTest, EachEventStartsWhereTheLastOneEnded) {
  auto event = [](uint64_t sequence, JobState from, JobState to) {
    return std::make_shared<const JobEvent>(
        JobEvent{.sequence = sequence, .job_id = 1, .from = from, .to = to});
  };
  const auto good = ReplayEvents({event(1, JobState::kPending, JobState::kPending),
                                  event(2, JobState::kPending, JobState::kStarting)});
  ASSERT_OK(good);
  EXPECT_EQ(good->at(1), JobState::kStarting);
  EXPECT_THAT(ReplayEvents({event(1, JobState::kPending, JobState::kPending),
                            event(2, JobState::kRunning, JobState::kFailed)})
                  .status(),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST(RowCodecTest, WhatIsNotFiniteComesBackAsNan) {
  const auto numbers = DecodeNumbers(EncodeNumbers({{"a", 1.25}, {"b", INFINITY}}));
  ASSERT_OK(numbers);
  EXPECT_EQ(numbers->at("a"), 1.25);
  EXPECT_TRUE(std::isnan(numbers->at("b")));
}

TEST(RowCodecTest, BrokenTextIsDataLoss) {
  EXPECT_THAT(DecodeTexts("[]").status(), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(DecodeTexts("{").status(), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(DecodeNumbers("{\"a\":\"x\"}").status(), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(DecodeIds("[-1]").status(), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(DecodeHexList("[1]").status(), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(DecodeSlots("[[1]]").status(), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(RowCodecTest, BytesAndListsComeBack) {
  const std::vector<std::string> blobs = {std::string("\0\xff", 2), ""};
  EXPECT_EQ(*DecodeHexList(EncodeHexList(blobs)), blobs);
  EXPECT_EQ(*DecodeIds(EncodeIds({1, 18446744073709551615u})),
            (std::vector<uint64_t>{1, 18446744073709551615u}));
  const std::vector<Slot> slots = {
      {.index = 3, .kind = SlotKind::kGpu, .device = "H100", .uuid = "u", .memory_bytes = 80}};
  EXPECT_EQ(*DecodeSlots(EncodeSlots(slots)), slots);
}

}  // namespace
}  // namespace muster::controller
