#include "controller/model/array_tally.h"

#include <gtest/gtest.h>

#include <random>

#include "controller/model/draft.h"

namespace muster::controller {
namespace {

ArrayTally Recount(const Snapshot& snapshot, uint64_t array_id) {
  ArrayTally tally;
  snapshot.jobs.ForEach([&](const Job& job) {
    if (job.array.array_id != array_id) return;
    if (!IsTerminal(job.state)) {
      ++tally.open;
    } else if (job.state == JobState::kSucceeded) {
      if (++tally.succeeded == 1) tally.first_succeeded = job.id;
    } else if (++tally.failed == 1) {
      tally.first_failed = job.id;
    }
  });
  return tally;
}

TEST(ArrayTally, IsWhatACountWouldGiveAfterEachBatch) {
  constexpr uint64_t kTasks = 12;
  Draft first{Snapshot()};
  for (uint64_t id = 1; id <= 2 * kTasks; ++id) {
    Job job;
    job.settings = std::make_shared<const JobSettings>();
    job.state = JobState::kPending;
    job.array.array_id = id <= kTasks ? 1 : kTasks + 1;
    first.AddJob(std::move(job));
  }
  Job alone;
  alone.settings = std::make_shared<const JobSettings>();
  alone.state = JobState::kPending;
  first.AddJob(std::move(alone));
  auto snapshot = first.Finish();
  std::mt19937_64 rng(3);
  for (int batch = 0; batch < 2000; ++batch) {
    Draft draft(*snapshot);
    for (uint64_t edits = 1 + rng() % 4; edits > 0; --edits) {
      draft.EditJob(1 + rng() % (2 * kTasks + 1)).state =
          static_cast<JobState>(1 + rng() % kJobStateCount);
    }
    snapshot = draft.Finish();
    for (const uint64_t array : {uint64_t{1}, kTasks + 1}) {
      const ArrayTally* tally = snapshot->arrays.Find(ArrayKey(array));
      ASSERT_NE(tally, nullptr);
      ASSERT_EQ(*tally, Recount(*snapshot, array)) << batch;
    }
  }
  Draft lists(*snapshot);
  lists.RebuildJobLists();
  EXPECT_EQ(*lists.view().arrays.Find(ArrayKey(1)), Recount(*snapshot, 1)) << "after a restart";
}

}  // namespace
}  // namespace muster::controller
