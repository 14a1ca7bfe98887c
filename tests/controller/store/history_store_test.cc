#include "controller/store/history/history_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/store/history/history_schema.h"
#include "controller/store/state_schema.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Pair;

class HistoryStoreTest : public ::testing::Test {
 protected:
  HistoryStoreTest() { Open(); }

  void Open() {
    store_.reset();
    auto opened = HistoryStore::Open({.path = dir_ / "history.db"});
    ASSERT_OK(opened.status());
    store_ = *std::move(opened);
  }

  // One that was cancelled so many minutes after 1970 began.
  std::shared_ptr<Job> MakeJob(uint64_t id, int minutes) {
    auto settings = std::make_shared<JobSettings>();
    settings->name = absl::StrCat("job-", id);
    settings->project = "p";
    auto job = std::make_shared<Job>();
    job->id = id;
    job->settings = settings;
    job->owner = "ann";
    job->state = JobState::kCancelled;
    job->finished = absl::UnixEpoch() + absl::Minutes(minutes);
    job->events.push_back(std::make_shared<const JobEvent>(
        JobEvent{.sequence = 2 * id - 1, .job_id = id, .reason = Reason::kSubmitted}));
    job->events.push_back(std::make_shared<const JobEvent>(JobEvent{.sequence = 2 * id,
                                                                    .job_id = id,
                                                                    .to = JobState::kCancelled,
                                                                    .message = "no more",
                                                                    .at = job->finished}));
    return job;
  }
  static ArchivedJob Saved(std::shared_ptr<Job> job, uint64_t checkpoint, CheckpointState state) {
    job->checkpoints.push_back(checkpoint);
    auto row = std::make_shared<Checkpoint>();
    row->id = checkpoint;
    row->job_id = job->id;
    row->state = state;
    row->step = 7;
    row->path = "/c";
    row->pinned_by = "user:ann";
    row->removed_by = "user:bob";
    return {.job = std::move(job), .checkpoints = {std::move(row)}};
  }
  void Put(std::vector<ArchivedJob> jobs) { ASSERT_OK(store_->Put(jobs).status()); }
  std::vector<uint64_t> List(const ArchivedJobsQuery& query) {
    const auto page = store_->List(query);
    EXPECT_OK(page.status());
    return page.ok() ? page->rows : std::vector<uint64_t>();
  }

  TempDir dir_;
  std::unique_ptr<HistoryStore> store_;
};

TEST_F(HistoryStoreTest, AJobIsReadAsItWasPut) {
  const std::shared_ptr<Job> job = MakeJob(3, 10);
  job->message = "no more";
  job->attempt = 2;
  for (uint32_t number : {1u, 2u}) {
    Attempt attempt{.job_id = 3, .number = number, .generation = 1, .ended = job->finished};
    attempt.ranks.push_back({.rank = 0, .worker = "w", .slots = {1, 4}, .exit_code = 9});
    if (job->current != nullptr) job->past.push_back(job->current);
    job->current = std::make_shared<const Attempt>(attempt);
  }
  job->ledger.times[TimeLabel::kProductive] = absl::Seconds(40);
  job->ledger.until = job->finished;
  Put({Saved(job, 5, CheckpointState::kVerified)});
  Open();
  EXPECT_EQ(store_->jobs(), 1u);
  EXPECT_EQ(store_->last_event(), 6u);
  const auto found = store_->Find(3);
  ASSERT_OK(found.status());
  EXPECT_EQ(found->job->message, "no more");
  EXPECT_EQ(found->job->settings->name, "job-3");
  EXPECT_EQ(found->job->ledger.times, job->ledger.times);
  ASSERT_EQ(found->job->past.size(), 1u);
  ASSERT_NE(found->job->current, nullptr);
  EXPECT_EQ(found->job->current->number, 2u);
  EXPECT_THAT(found->job->current->ranks.at(0).slots, ElementsAre(1, 4));
  ASSERT_EQ(found->job->events.size(), 2u);
  EXPECT_EQ(found->job->events[1]->message, "no more");
  EXPECT_THAT(found->job->checkpoints, ElementsAre(5));
  ASSERT_EQ(found->checkpoints.size(), 1u);
  EXPECT_EQ(found->checkpoints[0]->state, CheckpointState::kVerified);
  EXPECT_EQ(found->checkpoints[0]->pinned_by, "user:ann");
  EXPECT_EQ(found->checkpoints[0]->removed_by, "user:bob");
  EXPECT_THAT(store_->Find(4).status(), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(HistoryStoreTest, TheLastTimeThatAJobIsPutCounts) {
  Put({Saved(MakeJob(1, 1), 1, CheckpointState::kVerified)});
  const std::shared_ptr<Job> again = MakeJob(1, 5);
  again->events.pop_back();
  Put({{.job = again}});
  EXPECT_EQ(store_->jobs(), 1u);
  const auto found = store_->Find(1);
  ASSERT_OK(found.status());
  EXPECT_EQ(found->job->finished, again->finished);
  EXPECT_EQ(found->job->events.size(), 1u);
  EXPECT_THAT(found->checkpoints, IsEmpty());
  EXPECT_EQ(*store_->OfCheckpoint(1), 0u);
}

TEST_F(HistoryStoreTest, JobsAreFoundByNameKeyAndCheckpoint) {
  std::vector<ArchivedJob> jobs;
  for (uint64_t id = 1; id <= 4; ++id) {
    const std::shared_ptr<Job> job = MakeJob(id, 1);
    auto settings = std::make_shared<JobSettings>(*job->settings);
    settings->name = id == 4 ? "other" : "nightly";
    job->settings = settings;
    if (id == 2) job->idempotency_key = "key";
    const CheckpointState state = id == 1 ? CheckpointState::kVerified : CheckpointState::kDeleted;
    jobs.push_back(Saved(job, 10 + id, state));
  }
  Put(jobs);
  EXPECT_EQ(*store_->NewestOfName("nightly"), 3u);
  EXPECT_EQ(*store_->NewestOfName("none"), 0u);
  EXPECT_EQ(*store_->NewestResumable("p", "nightly", 9), 1u) << "those after it have none left";
  EXPECT_EQ(*store_->NewestResumable("p", "nightly", 1), 0u);
  EXPECT_EQ(*store_->NewestResumable("q", "nightly", 9), 0u);
  EXPECT_EQ(*store_->OfKey("ann", "key"), 2u);
  EXPECT_EQ(*store_->OfKey("bob", "key"), 0u);
  EXPECT_EQ(*store_->OfKey("ann", ""), 0u);
  EXPECT_EQ(*store_->OfCheckpoint(14), 4u);
}

TEST_F(HistoryStoreTest, EndsOfManyJobsAreReadAtOnce) {
  std::vector<ArchivedJob> jobs;
  for (uint64_t id = 1; id <= 3000; id += 2) jobs.push_back({.job = MakeJob(id, 7)});
  Put(jobs);
  const auto ended = store_->FinishedAmong({1, 2, 999, 1000, 2001, 2999, 3000, 5001});
  ASSERT_OK(ended);
  const absl::Time at = absl::UnixEpoch() + absl::Minutes(7);
  EXPECT_THAT(*ended, ElementsAre(Pair(1, at), Pair(999, at), Pair(2001, at), Pair(2999, at)));
  EXPECT_THAT(*store_->FinishedAmong({}), IsEmpty());
}

TEST_F(HistoryStoreTest, ARankIsKnownByItsAttemptAndWorker) {
  const std::shared_ptr<Job> job = MakeJob(3, 10);
  job->attempt = 1;
  Attempt attempt{.job_id = 3, .number = 1, .generation = 2, .ended = job->finished};
  attempt.ranks.push_back({.rank = 0, .worker = "w"});
  job->current = std::make_shared<const Attempt>(attempt);
  Put({{.job = job}});
  EXPECT_TRUE(*store_->WasPlacedOn({3, 1, 2, 0}, "w"));
  EXPECT_FALSE(*store_->WasPlacedOn({3, 1, 2, 0}, "other"));
  EXPECT_FALSE(*store_->WasPlacedOn({3, 1, 1, 0}, "w"));
  EXPECT_FALSE(*store_->WasPlacedOn({3, 1, 2, 1}, "w"));
  EXPECT_FALSE(*store_->WasPlacedOn({4, 1, 2, 0}, "w"));
}

TEST_F(HistoryStoreTest, AJobStaysWhileAnotherThatBeganFromItDoes) {
  const auto began_from = [this](uint64_t id, uint64_t checkpoint) {
    const std::shared_ptr<Job> job = MakeJob(id, static_cast<int>(id));
    auto settings = std::make_shared<JobSettings>(*job->settings);
    settings->resume_from = {checkpoint};
    job->settings = settings;
    return job;
  };
  // 3 began from 2, which began from 1. What began from another one leaves memory first.
  Put({{.job = began_from(3, 12)}});
  Put({Saved(began_from(2, 11), 12, CheckpointState::kDeleted)});
  Put({Saved(MakeJob(1, 1), 11, CheckpointState::kDeleted)});
  constexpr size_t kAny = 1000;
  const auto ended = [](int minutes) { return absl::UnixEpoch() + absl::Minutes(minutes); };
  EXPECT_EQ(*store_->RemoveOldest(ended(2), kAny, kAny), 0u);
  Open();
  EXPECT_EQ(*store_->RemoveOldest(ended(2), kAny, kAny), 0u);
  EXPECT_EQ(*store_->RemoveOldest(ended(3), kAny, kAny), 1u);
  EXPECT_THAT(List({}), ElementsAre(2, 1));
  EXPECT_EQ(*store_->RemoveOldest(ended(3), kAny, kAny), 1u);
  EXPECT_EQ(*store_->RemoveOldest(ended(3), kAny, kAny), 1u);
  EXPECT_EQ(store_->jobs(), 0u);
}

TEST_F(HistoryStoreTest, ListsAreFilteredAndGoOnWhereTheyEnded) {
  std::vector<ArchivedJob> jobs;
  for (uint64_t id = 1; id <= 9; ++id) {
    const std::shared_ptr<Job> job = MakeJob(id, static_cast<int>(id));
    if (id % 2 == 0) job->state = JobState::kFailed;
    jobs.push_back({.job = job});
  }
  Put(jobs);
  EXPECT_THAT(List({.states = {JobState::kFailed}}), ElementsAre(8, 6, 4, 2));
  EXPECT_THAT(List({.project = "q"}), IsEmpty());
  EXPECT_THAT(List({.finished_from = absl::UnixEpoch() + absl::Minutes(3),
                    .finished_before = absl::UnixEpoch() + absl::Minutes(5)}),
              ElementsAre(4, 3));
  ArchivedJobsQuery query{.most = 4};
  std::vector<uint64_t> all;
  int pages = 0;
  do {
    const auto page = store_->List(query);
    ASSERT_OK(page.status());
    all.insert(all.end(), page->rows.begin(), page->rows.end());
    query.below = page->looked_down_to;
    ++pages;
  } while (query.below != 0);
  EXPECT_THAT(all, ElementsAre(9, 8, 7, 6, 5, 4, 3, 2, 1));
  EXPECT_EQ(pages, 3);
  const auto ledgers = store_->Ledgers({.below = 3});
  ASSERT_OK(ledgers.status());
  ASSERT_EQ(ledgers->rows.size(), 2u);
  EXPECT_EQ(ledgers->rows[0].name, "job-2");
  EXPECT_EQ(ledgers->rows[0].state, JobState::kFailed);
}

TEST_F(HistoryStoreTest, EventsOfAllJobsAreReadInTheirOrder) {
  Put({{.job = MakeJob(2, 1)}, {.job = MakeJob(5, 1)}, {.job = MakeJob(1, 1)}});
  const auto events = store_->EventsAfter(1, 3);
  ASSERT_OK(events.status());
  ASSERT_EQ(events->size(), 3u);
  EXPECT_EQ((*events)[0]->sequence, 2u);
  EXPECT_EQ((*events)[1]->sequence, 3u);
  EXPECT_EQ((*events)[2]->sequence, 4u);
  const auto newest = store_->NewestEvents(2);
  ASSERT_OK(newest.status());
  EXPECT_THAT(*newest, ElementsAre(10, 9));
}

TEST_F(HistoryStoreTest, TheLongestFinishedWithoutACheckpointGoFirst) {
  std::vector<ArchivedJob> jobs;
  for (uint64_t id = 1; id <= 6; ++id)
    jobs.push_back({.job = MakeJob(id, 60 - static_cast<int>(id))});
  jobs[5] = Saved(MakeJob(6, 0), 1, CheckpointState::kVerified);
  jobs[4] = Saved(MakeJob(5, 1), 2, CheckpointState::kDeleted);
  Put(jobs);
  constexpr size_t kAny = 1000;
  const absl::Time start = absl::UnixEpoch();
  EXPECT_EQ(*store_->RemoveOldest(start, kAny, kAny), 0u);
  EXPECT_EQ(*store_->RemoveOldest(start + absl::Minutes(56), kAny, kAny), 2u);
  EXPECT_THAT(List({}), ElementsAre(6, 3, 2, 1)) << "one has a checkpoint";
  EXPECT_EQ(*store_->RemoveOldest(start, 2, 1), 1u);
  EXPECT_EQ(*store_->RemoveOldest(start, 2, kAny), 1u);
  EXPECT_THAT(List({}), ElementsAre(6, 1));
  EXPECT_EQ(store_->jobs(), 2u);
  EXPECT_EQ(*store_->OfCheckpoint(2), 0u);
  const auto highest = store_->HighestIds();
  ASSERT_OK(highest.status());
  EXPECT_EQ(highest->job, 6u);
  EXPECT_EQ(highest->checkpoint, 1u);
}

TEST_F(HistoryStoreTest, AnArrayGoesWhole) {
  std::vector<ArchivedJob> jobs;
  for (uint64_t id = 1; id <= 6; ++id) {
    const std::shared_ptr<Job> job = MakeJob(id, static_cast<int>(id));
    if (id >= 2) job->array = {.array_id = id <= 3 ? 2u : 4u, .index = static_cast<uint32_t>(id)};
    jobs.push_back({.job = job});
  }
  jobs[4] = Saved(std::const_pointer_cast<Job>(jobs[4].job), 1, CheckpointState::kVerified);
  Put(jobs);
  EXPECT_THAT(*store_->TasksOf(4), ElementsAre(4, 5, 6));
  EXPECT_THAT(*store_->TasksOf(0), IsEmpty());
  constexpr size_t kAny = 1000;
  const auto ended = [](int minutes) { return absl::UnixEpoch() + absl::Minutes(minutes); };
  EXPECT_EQ(*store_->RemoveOldest(ended(2), kAny, kAny), 1u) << "the array's last task ended later";
  EXPECT_EQ(*store_->RemoveOldest(ended(3), kAny, /*most=*/1), 2u);
  EXPECT_EQ(*store_->RemoveOldest(ended(60), /*bound=*/0, kAny), 0u) << "a task has a checkpoint";
  EXPECT_THAT(List({}), ElementsAre(6, 5, 4));
  jobs.erase(jobs.begin(), jobs.begin() + 3);
  jobs[1].checkpoints.clear();
  Put(jobs);
  EXPECT_EQ(*store_->RemoveOldest(ended(6), kAny, kAny), 3u);
}

TEST_F(HistoryStoreTest, KnowsWhatThereWasWhenItWasMade) {
  EXPECT_EQ(store_->began_after_job(), 0u);
  const absl::Time now = absl::UnixEpoch() + absl::Hours(7);
  ASSERT_OK(store_->Begin(41, now, 0));
  ASSERT_OK(store_->Begin(99, now + absl::Hours(1), 0));
  Open();
  EXPECT_EQ(store_->began_after_job(), 41u);
  EXPECT_EQ(store_->began(), now);
}

// So that it can be set aside.
TEST_F(HistoryStoreTest, ABrokenTableShowsWhenTheFileIsOpened) {
  Put({Saved(MakeJob(1, 1), 1, CheckpointState::kVerified)});
  store_.reset();
  int64_t page = 0;
  int64_t page_bytes = 0;
  {
    const auto db = SqliteDatabase::Open({.path = dir_ / "history.db"}, HistoryMigrations());
    ASSERT_OK(db.status());
    SqliteStatement root =
        (*db)->Prepare("SELECT rootpage FROM sqlite_schema WHERE name = 'checkpoints'");
    ASSERT_TRUE(*root.Step());
    page = root.Int(0);
    SqliteStatement size = (*db)->Prepare("PRAGMA page_size");
    ASSERT_TRUE(*size.Step());
    page_bytes = size.Int(0);
  }
  {
    std::fstream file(dir_ / "history.db", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp((page - 1) * page_bytes);
    file << std::string(static_cast<size_t>(page_bytes), '\x55');
  }
  EXPECT_THAT(HistoryStore::Open({.path = dir_ / "history.db"}).status(),
              StatusIs(absl::StatusCode::kDataLoss));
}

// As a musterd left it that knew neither savers nor who began from whom.
TEST_F(HistoryStoreTest, AFileOfTheFirstVersionIsBroughtUpToDate) {
  const std::shared_ptr<Job> second = MakeJob(2, 2);
  auto settings = std::make_shared<JobSettings>(*second->settings);
  settings->resume_from = {11};
  second->settings = settings;
  Put({Saved(MakeJob(1, 1), 11, CheckpointState::kDeleted),
       Saved(second, 12, CheckpointState::kVerified)});
  store_.reset();
  {
    const auto db = SqliteDatabase::Open({.path = dir_ / "history.db"}, HistoryMigrations());
    ASSERT_OK(db.status());
    for (const char* sql :
         {"DROP TABLE savers", "DROP TABLE begun_from", "DROP TABLE puts",
          "ALTER TABLE checkpoints DROP COLUMN pinned_by",
          "ALTER TABLE checkpoints DROP COLUMN removed_by",
          "ALTER TABLE job_index ADD COLUMN is_restorable INTEGER NOT NULL DEFAULT 0",
          "UPDATE job_index SET is_restorable = id = 2",
          "UPDATE job_index SET forgettable_from_ns = finished_at_ns WHERE id = 1",
          "DELETE FROM migrations WHERE version > 1"}) {
      ASSERT_OK((*db)->Prepare(sql).Run()) << sql;
    }
  }
  Open();
  EXPECT_EQ(*store_->NewestResumable("p", "job-2", 9), 2u);
  EXPECT_EQ(*store_->NewestResumable("p", "job-1", 9), 0u);
  constexpr size_t kAny = 1000;
  const absl::Time later = absl::UnixEpoch() + absl::Hours(1);
  EXPECT_EQ(*store_->RemoveOldest(later, kAny, kAny), 0u) << "the second one began from the first";
}

// The statements that write and read jobs are the same for both databases.
TEST_F(HistoryStoreTest, HasTheColumnsThatStateDbHas) {
  const auto columns = [](SqliteDatabase& db, const std::string& table) {
    std::set<std::string> names;
    SqliteStatement row = db.Prepare("SELECT name FROM pragma_table_info(?)");
    row.Bind(table);
    while (*row.Step()) names.insert(row.Text(0));
    return names;
  };
  const auto state = SqliteDatabase::Open({.path = dir_ / "state.db"}, StateMigrations());
  const auto history = SqliteDatabase::Open({.path = dir_ / "other.db"}, HistoryMigrations());
  ASSERT_OK(state.status());
  ASSERT_OK(history.status());
  for (const char* table : {"jobs", "attempts", "ranks", "checkpoints", "events"}) {
    const std::set<std::string> wanted = columns(**state, table);
    EXPECT_FALSE(wanted.empty()) << table;
    EXPECT_THAT(columns(**history, table), IsSupersetOf(wanted)) << table;
  }
}

}  // namespace
}  // namespace muster::controller
