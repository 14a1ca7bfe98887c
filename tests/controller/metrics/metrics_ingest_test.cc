#include "controller/metrics/metrics_ingest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "controller/store/metrics/metrics_store.h"
#include "controller/store/set_aside.h"
#include "tests/support/bad_reads.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::controller {
namespace {

using ::muster::testing::BadReads;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::HasSubstr;

MetricsBatch OnePoint(uint64_t job_id, uint64_t seq) {
  const RankKey key{job_id, 1, 1, 0};
  return {{{key, seq, {{"loss", static_cast<int64_t>(seq), 0, 1.0}}}}, {}, {}};
}

MetricsBatch OneLog(uint64_t job_id, std::string text) {
  return {{}, {{{job_id, 1, 1, 0}, false, 0, std::move(text)}}, {}};
}

class MetricsIngestTest : public ::testing::Test {
 protected:
  void Start(MetricsIngestOptions options = {}) {
    options.path = dir_ / "metrics.db";
    options.full_disk_retry = absl::Milliseconds(1);
    options.open_retry = absl::Milliseconds(1);
    auto ingest = MetricsIngest::Open(std::move(options), clock_);
    ASSERT_OK(ingest);
    ingest_ = *std::move(ingest);
    ingest_->Start();
  }
  std::future<absl::Status> Submit(MetricsBatch batch) {
    auto promise = std::make_shared<std::promise<absl::Status>>();
    ingest_->Submit(std::move(batch), [promise](const absl::Status& s) { promise->set_value(s); });
    return promise->get_future();
  }
  // Runs `read` on the ingest's thread and waits for it.
  template <typename F>
  auto Read(F read) {
    std::promise<decltype(read(std::declval<MetricsStore&>()))> promise;
    ingest_->Read([&](MetricsStore* store, const absl::Status& refused) {
      EXPECT_OK(refused);
      promise.set_value(read(*store));
    });
    return promise.get_future().get();
  }
  size_t CountPoints(uint64_t job_id) {
    std::promise<absl::StatusOr<PointPage>> promise;
    ingest_->ReadPoints(
        {.job_id = job_id, .page_size = 10000},
        [&](absl::StatusOr<PointPage> page) { promise.set_value(std::move(page)); });
    const absl::StatusOr<PointPage> page = promise.get_future().get();
    EXPECT_OK(page);
    return page.ok() ? page->points.size() : 0;
  }

  TempDir dir_;
  RealClock clock_;
  std::atomic<bool> armed_ = false;
  std::unique_ptr<MetricsIngest> ingest_;
};

TEST_F(MetricsIngestTest, AnAnsweredBatchIsThere) {
  Start();
  EXPECT_OK(Submit(OnePoint(1, 1)).get());
  EXPECT_EQ(CountPoints(1), 1u);
  EXPECT_EQ(ingest_->counts().points, 1u);
  EXPECT_OK(ingest_->ready());
}

TEST_F(MetricsIngestTest, WhatNoPlacedAttemptSentIsCountedAndDropped) {
  MetricsIngestOptions options;
  options.known = [](const RankKey& key, const std::string&) { return key.job_id == 1; };
  Start(std::move(options));
  EXPECT_OK(Submit(OnePoint(1, 1)).get());
  EXPECT_OK(Submit(OnePoint(2, 1)).get());
  EXPECT_EQ(CountPoints(2), 0u);
  EXPECT_EQ(ingest_->counts().refused_records, 1u);
}

TEST_F(MetricsIngestTest, TheSenderIsAskedFor) {
  MetricsIngestOptions options;
  options.known = [](const RankKey&, const std::string& worker) { return worker == "w1"; };
  Start(std::move(options));
  MetricsBatch good = OnePoint(1, 1);
  good.worker = "w1";
  EXPECT_OK(Submit(std::move(good)).get());
  MetricsBatch foreign = OnePoint(1, 2);
  foreign.worker = "w2";
  EXPECT_OK(Submit(std::move(foreign)).get());
  EXPECT_EQ(CountPoints(1), 1u);
  EXPECT_EQ(ingest_->counts().refused_records, 1u);
}

TEST_F(MetricsIngestTest, AFullDiskKeepsBatchesUnansweredUntilThereIsRoom) {
  MetricsIngestOptions options;
  options.file_max_bytes = 256 << 10;
  Start(std::move(options));
  EXPECT_OK(Submit(OnePoint(1, 1)).get());
  std::future<absl::Status> large = Submit(OneLog(1, std::string(1 << 20, 'x')));
  std::future<absl::Status> later = Submit(OnePoint(1, 2));
  // Reads go on meanwhile; readiness says what is wrong.
  while (ingest_->ready().ok()) EXPECT_EQ(CountPoints(1), 1u);
  EXPECT_THAT(ingest_->ready(), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(CountPoints(1), 1u);
  EXPECT_EQ(large.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  EXPECT_EQ(later.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  EXPECT_OK(Read([](MetricsStore& store) { return store.SetMaxBytes(0); }));
  EXPECT_OK(large.get());
  EXPECT_OK(later.get());
  EXPECT_OK(ingest_->ready());
  EXPECT_EQ(CountPoints(1), 2u);
}

TEST_F(MetricsIngestTest, WithoutAThreadItsOwnerDrivesIt) {
  MetricsIngestOptions options;
  options.threads = false;
  Start(std::move(options));
  std::future<absl::Status> stored = Submit(OnePoint(1, 1));
  EXPECT_EQ(stored.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  ingest_->RunUntilIdle();
  EXPECT_OK(stored.get());
  EXPECT_EQ(ingest_->counts().points, 1u);
}

// As many as may follow logs at a time have a read waiting when the disk stands still for a moment,
// and none of them may be refused for it: that ends the stream.
TEST_F(MetricsIngestTest, EachFollowerMayHaveAReadWaiting) {
  MetricsIngestOptions options;
  options.threads = false;
  Start(std::move(options));
  constexpr size_t kFollowers = 4096;
  size_t answered = 0;
  for (size_t i = 0; i < kFollowers; ++i) {
    ingest_->ReadLogs({.job_id = 1}, {}, [&](const absl::StatusOr<LogPage>& page) {
      EXPECT_OK(page);
      ++answered;
    });
  }
  EXPECT_EQ(answered, 0u);
  ingest_->RunUntilIdle();
  EXPECT_EQ(answered, kFollowers);
}

// What reads in several turns is queued again for each: it is not lost half way because others
// came.
TEST_F(MetricsIngestTest, AReadThatHasBegunGoesOnHoweverManyWait) {
  MetricsIngestOptions options;
  options.threads = false;
  Start(std::move(options));
  MetricsBatch batch;
  for (uint64_t seq = 1; seq <= 600'000; ++seq) {
    batch.points.push_back({{1, 1, 1, 0}, seq, {{"loss", 0, 0, 1.0}}});
  }
  ingest_->Submit(std::move(batch), [](const absl::Status& status) { EXPECT_OK(status); });
  ingest_->RunUntilIdle();
  size_t refused = 0;
  size_t waiting = 0;
  const auto fill = [&](MetricsStore* store, const absl::Status&) {
    --waiting;
    refused += store == nullptr;
  };
  // The queue is full when the first turn ends.
  ingest_->Read([&](MetricsStore*, const absl::Status&) {
    while (refused == 0) {
      ++waiting;
      ingest_->Read(fill);
    }
  });
  absl::StatusOr<PointPage> page = absl::UnknownError("not answered");
  ingest_->ReadPoints({.job_id = 1, .page_size = 10},
                      [&](absl::StatusOr<PointPage> read) { page = std::move(read); });
  ingest_->RunUntilIdle();
  EXPECT_EQ(waiting, 0u);
  ASSERT_OK(page);
  EXPECT_EQ(page->points.size(), 1u);
}

TEST_F(MetricsIngestTest, StoppingAnswersAllThatWaits) {
  MetricsIngestOptions options;
  options.file_max_bytes = 256 << 10;
  Start(std::move(options));
  std::future<absl::Status> large = Submit(OneLog(1, std::string(1 << 20, 'x')));
  ingest_->Stop();
  EXPECT_THAT(large.get(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(Submit(OnePoint(1, 1)).get(), StatusIs(absl::StatusCode::kUnavailable));
  ingest_->Read([](MetricsStore* store, const absl::Status& refused) {
    EXPECT_EQ(store, nullptr);
    EXPECT_THAT(refused, StatusIs(absl::StatusCode::kUnavailable));
  });
  ingest_->ReadLogs({.job_id = 1}, {}, [](absl::StatusOr<LogPage> page) {
    EXPECT_THAT(page, StatusIs(absl::StatusCode::kUnavailable));
  });
}

TEST_F(MetricsIngestTest, ALongReadLetsABatchInBetweenItsTurns) {
  Start();
  MetricsBatch many;
  const RankKey key{1, 1, 1, 0};
  for (uint64_t seq = 1; seq <= 400'000; ++seq) {
    many.points.push_back({key, seq, {{"loss", static_cast<int64_t>(seq), 0, 1.0}}});
  }
  ASSERT_OK(Submit(std::move(many)).get());
  std::promise<void> stored;
  std::promise<absl::StatusOr<PointPage>> read;
  bool is_read = false;  // by the ingest's thread only, as the next
  bool was_read_first = true;
  // Queued on the ingest's thread, so that it turns both together: first the read, then what
  // submits the batch.
  EXPECT_OK(Read([&](MetricsStore&) {
    ingest_->ReadPoints({.job_id = 1, .page_size = 10, .max_points = 10},
                        [&](absl::StatusOr<PointPage> page) {
                          is_read = true;
                          read.set_value(std::move(page));
                        });
    ingest_->Read([&](MetricsStore*, const absl::Status&) {
      ingest_->Submit(OnePoint(2, 1), [&](const absl::Status& status) {
        EXPECT_OK(status);
        was_read_first = is_read;
        stored.set_value();
      });
    });
    return absl::OkStatus();
  }));
  stored.get_future().get();
  EXPECT_FALSE(was_read_first);
  const absl::StatusOr<PointPage> page = read.get_future().get();
  ASSERT_OK(page);
  EXPECT_EQ(page->points.size(), 10u);
}

TEST_F(MetricsIngestTest, AnOriginThatCannotBeReadIsTaken) {
  MetricsIngestOptions options;
  options.known = [](const RankKey& key, const std::string&) -> absl::StatusOr<bool> {
    if (key.job_id == 1) return absl::UnknownError("disk I/O error");
    return false;
  };
  Start(std::move(options));
  EXPECT_OK(Submit(OnePoint(1, 1)).get());
  EXPECT_OK(Submit(OnePoint(2, 1)).get());
  EXPECT_EQ(CountPoints(1), 1u);
  EXPECT_EQ(CountPoints(2), 0u);
  EXPECT_EQ(ingest_->counts().refused_records, 1u);
}

TEST_F(MetricsIngestTest, TheOriginOfARankIsAskedOnceABatch) {
  std::atomic<int> asked = 0;
  MetricsIngestOptions options;
  options.known = [&](const RankKey&, const std::string&) { return ++asked > 0; };
  Start(std::move(options));
  MetricsBatch batch = OnePoint(1, 1);
  for (uint64_t seq = 2; seq <= 1000; ++seq) {
    MetricsBatch more = OnePoint(1, seq);
    batch.points.push_back(std::move(more.points.front()));
  }
  EXPECT_OK(Submit(std::move(batch)).get());
  EXPECT_EQ(ingest_->counts().points, 1000u);
  EXPECT_EQ(asked, 1);
}

std::vector<JobEnd> EndsBy(const std::vector<uint64_t>& jobs,
                           const std::function<JobEnd(uint64_t)>& end) {
  std::vector<JobEnd> ends;
  for (uint64_t job : jobs) ends.push_back(end(job));
  return ends;
}
constexpr JobEnd kForgottenJob{JobEnd::State::kForgotten, absl::ZeroDuration()};
JobEnd EndedFor(absl::Duration ago) { return {JobEnd::State::kEnded, ago}; }

TEST_F(MetricsIngestTest, FinishedJobsLoseTheirRowsAfterTheRetention) {
  std::promise<void> looked_twice;
  int looks = 0;
  MetricsIngestOptions options;
  options.retention = absl::Hours(1);
  options.retention_interval = absl::Milliseconds(1);
  options.ends = [&](const std::vector<uint64_t>& jobs) {
    if (armed_ && jobs.size() == 3 && ++looks == 3) looked_twice.set_value();
    return EndsBy(jobs, [](uint64_t job) {
      if (job == 3) return JobEnd();
      return EndedFor(job == 1 ? absl::Hours(2) : absl::ZeroDuration());
    });
  };
  Start(std::move(options));
  const absl::Cleanup stop = [this] { ingest_->Stop(); };  // its callbacks use the above
  EXPECT_OK(Submit(OnePoint(1, 1)).get());
  EXPECT_OK(Submit(OnePoint(2, 1)).get());
  EXPECT_OK(Submit(OnePoint(3, 1)).get());
  armed_ = true;
  looked_twice.get_future().wait();
  EXPECT_EQ(CountPoints(1), 0u);
  EXPECT_EQ(CountPoints(2), 1u);
  EXPECT_EQ(CountPoints(3), 1u);
}

TEST_F(MetricsIngestTest, ForgottenJobsLoseTheirRowsAtOnce) {
  std::promise<void> looked_twice;
  int looks = 0;
  MetricsIngestOptions options;
  options.retention_interval = absl::Milliseconds(1);
  options.ends = [&](const std::vector<uint64_t>& jobs) {
    if (armed_ && jobs.back() == 2 && ++looks == 3) looked_twice.set_value();
    return EndsBy(jobs, [](uint64_t job) { return job == 1 ? kForgottenJob : JobEnd(); });
  };
  Start(std::move(options));
  const absl::Cleanup stop = [this] { ingest_->Stop(); };  // its callbacks use the above
  EXPECT_OK(Submit(OnePoint(1, 1)).get());
  EXPECT_OK(Submit(OnePoint(2, 1)).get());
  armed_ = true;
  looked_twice.get_future().wait();
  EXPECT_EQ(CountPoints(1), 0u);
  EXPECT_EQ(CountPoints(2), 1u);
  EXPECT_OK(Submit(OnePoint(1, 1)).get());
  EXPECT_EQ(ingest_->counts().duplicate_records, 0u) << "nor is there any mark of it";
}

TEST_F(MetricsIngestTest, AFullDatabaseDoesNotWaitForTheMarksOfForgottenJobs) {
  constexpr uint64_t kForgotten = 50;  // jobs 1 to 50, of which marks are here and no rows
  constexpr uint64_t kFinished = 51;
  std::vector<uint64_t> steps;  // the job of each step of removal
  std::promise<void> done;
  bool is_done = false;
  bool begun = false;  // the look before may still be at work when this is armed
  MetricsIngestOptions options;
  options.max_bytes = 1;
  options.retention_interval = absl::Milliseconds(1);
  options.ends = [&](const std::vector<uint64_t>& jobs) {
    const bool is_look = jobs.size() > 1;
    if (is_look) begun = armed_;
    if (!is_look && begun) {
      steps.push_back(jobs.front());
      if (jobs.front() == kForgotten && !std::exchange(is_done, true)) done.set_value();
    }
    return EndsBy(jobs, [&](uint64_t job) {
      if (job == kFinished) return begun ? EndedFor(absl::ZeroDuration()) : JobEnd();
      // First all rows of the first fifty, while they are not forgotten.
      return begun ? kForgottenJob : EndedFor(absl::Hours(1000));
    });
  };
  Start(std::move(options));
  const absl::Cleanup stop = [this] { ingest_->Stop(); };  // its callbacks use the above
  for (uint64_t job = 1; job <= kFinished; ++job) EXPECT_OK(Submit(OnePoint(job, 1)).get());
  for (uint64_t job = 1; job <= kForgotten; ++job) {
    while (CountPoints(job) != 0) {
    }
  }
  armed_ = true;
  done.get_future().wait();
  EXPECT_OK(Read([](MetricsStore&) { return absl::OkStatus(); }));  // after the step that told
  ingest_->Stop();
  const auto finished = std::find(steps.begin(), steps.end(), kFinished);
  const auto last_forgotten = std::find(steps.begin(), steps.end(), kForgotten);
  EXPECT_LT(finished - steps.begin(), last_forgotten - steps.begin());
}

TEST_F(MetricsIngestTest, ATooLargeDatabaseLosesNoMoreJobsThanItMust) {
  constexpr uint64_t kJobs = 8;
  constexpr uint64_t kJobBytes = 200'000;
  constexpr uint64_t kMostBytes = 1'000'000;
  int looks = 0;
  std::promise<void> looked;
  MetricsIngestOptions options;
  options.max_bytes = kMostBytes;
  options.retention_interval = absl::Milliseconds(1);
  options.ends = [&](const std::vector<uint64_t>& jobs) {
    if (!armed_) return std::vector<JobEnd>(jobs.size());
    if (jobs.size() == kJobs && ++looks == 3) looked.set_value();
    return EndsBy(jobs, [&](uint64_t job) { return EndedFor(absl::Minutes(kJobs - job)); });
  };
  Start(std::move(options));
  const absl::Cleanup stop = [this] { ingest_->Stop(); };  // its callbacks use the above
  for (uint64_t job = 1; job <= kJobs; ++job) {
    EXPECT_OK(Submit(OneLog(job, std::string(kJobBytes, 'x'))).get());
  }
  armed_ = true;
  looked.get_future().wait();
  const uint64_t used = Read([](MetricsStore& store) { return *store.UsedBytes(); });
  EXPECT_LE(used, kMostBytes);
  EXPECT_GT(used, kMostBytes - 2 * kJobBytes);
  std::vector<uint64_t> kept;
  for (const auto& job : Read([](MetricsStore& store) { return *store.StoredJobs(); })) {
    if (job.has_rows) kept.push_back(job.job_id);
  }
  ASSERT_FALSE(kept.empty());
  EXPECT_EQ(kept.front(), kJobs - kept.size() + 1) << "the longest ended go";
}

TEST_F(MetricsIngestTest, AJobThatIsRequeuedMeanwhileKeepsItsRows) {
  std::promise<void> looked;
  std::atomic<bool> requeued = false;
  int looks = 0;
  MetricsIngestOptions options;
  options.retention = absl::Hours(1);
  options.retention_interval = absl::Milliseconds(1);
  options.ends = [&](const std::vector<uint64_t>& jobs) {
    const bool is_look = !requeued.exchange(!requeued);  // a look and a step take turns
    if (armed_ && is_look && ++looks == 3) looked.set_value();
    return EndsBy(jobs, [&](uint64_t) { return is_look ? EndedFor(absl::Hours(2)) : JobEnd(); });
  };
  Start(std::move(options));
  const absl::Cleanup stop = [this] { ingest_->Stop(); };  // its callbacks use the above
  EXPECT_OK(Submit(OnePoint(1, 1)).get());
  armed_ = true;
  looked.get_future().wait();
  EXPECT_EQ(CountPoints(1), 1u);
}

// Writes over the middle of the file, where SQLite keeps its pages.
void Damage(const std::string& path, std::streamoff from) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  ASSERT_TRUE(file);
  file.seekp(0, std::ios::end);
  const std::streamoff size = file.tellp();
  ASSERT_GT(size, from);
  file.seekp(from);
  file << std::string(static_cast<size_t>(size - from), '\x5a');
}

std::vector<std::string> SetAside(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.find(".broken-") != std::string::npos) names.push_back(name);
  }
  return names;
}

TEST_F(MetricsIngestTest, ADatabaseThatIsBrokenAtTheStartIsSetAsideAndSaidSo) {
  Start();
  EXPECT_OK(Submit(OnePoint(1, 1)).get());
  EXPECT_EQ(ingest_->set_aside(), "");
  ingest_.reset();
  Damage(dir_ / "metrics.db", 0);
  MetricsIngestOptions options;
  options.on_fatal = [](const absl::Status& why) { ADD_FAILURE() << why; };
  Start(std::move(options));
  EXPECT_EQ(CountPoints(1), 0u);
  EXPECT_OK(Submit(OnePoint(1, 2)).get());
  EXPECT_EQ(CountPoints(1), 1u);
  EXPECT_EQ(SetAside(dir_.path()).size(), 1u);
  EXPECT_NE(ingest_->set_aside().find("metrics.db.broken-"), std::string::npos);
}

TEST_F(MetricsIngestTest, AReadThatFailsForAMomentAtTheStartSetsNothingAside) {
  Start();
  EXPECT_OK(Submit(OnePoint(1, 1)).get());
  ingest_.reset();
  BadReads disk;
  disk.SetLeft(MetricsIngest::kOpenTries - 1);
  Start();
  EXPECT_EQ(disk.left(), 0);
  EXPECT_EQ(CountPoints(1), 1u);
  EXPECT_EQ(ingest_->set_aside(), "");
  EXPECT_TRUE(SetAside(dir_.path()).empty());
}

TEST_F(MetricsIngestTest, ADiskThatGivesNothingOutAtTheStartIsSaidSoAndTheFileStays) {
  Start();
  EXPECT_OK(Submit(OnePoint(1, 1)).get());
  ingest_.reset();
  BadReads disk;
  disk.SetLeft(1'000'000);
  const auto refused = MetricsIngest::Open(
      {.path = dir_ / "metrics.db", .open_retry = absl::Milliseconds(1)}, clock_);
  EXPECT_THAT(refused.status(),
              StatusIs(absl::StatusCode::kUnknown, HasSubstr("move " + (dir_ / "metrics.db"))));
  EXPECT_TRUE(SetAside(dir_.path()).empty());
  disk.SetLeft(0);
  Start();
  EXPECT_EQ(CountPoints(1), 1u);
}

TEST_F(MetricsIngestTest, OverManyRestartsOnlyAFewBrokenDatabasesAreKept) {
  Start();
  for (size_t i = 0; i < kMostSetAside + 3; ++i) {
    EXPECT_OK(Submit(OnePoint(1, i + 1)).get());
    ingest_.reset();
    Damage(dir_ / "metrics.db", 0);
    Start();
  }
  EXPECT_EQ(SetAside(dir_.path()).size(), kMostSetAside);
}

TEST_F(MetricsIngestTest, ADatabaseThatBreaksWhileItRunsIsSetAsideToo) {
  MetricsIngestOptions options;
  options.on_fatal = [](const absl::Status& why) { ADD_FAILURE() << why; };
  Start(std::move(options));
  for (uint64_t seq = 1; seq <= 50; ++seq) {
    EXPECT_OK(Submit(OneLog(seq, std::string(100'000, 'x'))).get());
  }
  EXPECT_OK(Read([](MetricsStore& store) { return store.CheckpointAbove(0); }));
  ingest_.reset();
  // Its first pages are whole, so that it opens; what is read later is not.
  Damage(dir_ / "metrics.db", 16 * 8192);
  options = MetricsIngestOptions();
  options.on_fatal = [](const absl::Status& why) { ADD_FAILURE() << why; };
  Start(std::move(options));
  for (uint64_t seq = 1; seq <= 50; ++seq) {
    EXPECT_OK(Submit(OneLog(1000 + seq, std::string(100'000, 'y'))).get());
  }
  EXPECT_OK(ingest_->ready());
  EXPECT_EQ(SetAside(dir_.path()).size(), 1u);
}

}  // namespace
}  // namespace muster::controller
