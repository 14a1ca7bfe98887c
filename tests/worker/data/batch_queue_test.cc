#include "worker/data/batch_queue.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>

namespace muster::worker {
namespace {

Batch BatchOf(uint64_t step) {
  return {.inputs = at::full({1}, static_cast<double>(step)), .count = static_cast<int64_t>(step)};
}

TEST(BatchQueue, GivesTheBatchOfEachStepInOrder) {
  for (const int64_t ahead : {0, 1, 3}) {
    BatchQueue queue(BatchOf, 3, 40, ahead);
    for (uint64_t step = 3; step < 40; ++step) {
      const Batch batch = queue.Next();
      EXPECT_EQ(batch.count, static_cast<int64_t>(step));
      EXPECT_EQ(batch.inputs.item<double>(), static_cast<double>(step));
    }
  }
}

TEST(BatchQueue, IsNoFurtherAheadThanItsBound) {
  for (const int64_t ahead : {0, 1, 3}) {
    std::atomic<int64_t> begun = 0;
    BatchQueue queue(
        [&begun](uint64_t step) {
          ++begun;
          return BatchOf(step);
        },
        0, 100, ahead);
    for (int64_t taken = 1; taken <= 50; ++taken) {
      queue.Next();
      EXPECT_LE(begun, taken + ahead);
    }
  }
}

TEST(BatchQueue, MakesTheNextBatchWhileOneIsInUse) {
  std::promise<void> second_begun;
  BatchQueue queue(
      [&second_begun](uint64_t step) {
        if (step == 1) second_begun.set_value();
        return BatchOf(step);
      },
      0, 2, 1);
  const Batch first = queue.Next();
  second_begun.get_future().wait();  // for ever, if it waited for the next call
  EXPECT_EQ(first.count, 0);
}

TEST(BatchQueue, ThrowsWhatTheMakingOfThatBatchThrew) {
  for (const int64_t ahead : {0, 1, 3}) {
    BatchQueue queue(
        [](uint64_t step) {
          if (step == 2) throw std::runtime_error("no such sample");
          return BatchOf(step);
        },
        0, 10, ahead);
    EXPECT_EQ(queue.Next().count, 0);
    EXPECT_EQ(queue.Next().count, 1);
    EXPECT_THROW(queue.Next(), std::runtime_error);
  }
}

TEST(BatchQueue, MayBeLeftWithBatchesThatNobodyTook) {
  for (int taken = 0; taken < 3; ++taken) {
    BatchQueue queue(BatchOf, 0, 1000, 1);
    for (int i = 0; i < taken; ++i) queue.Next();
  }
  const BatchQueue nothing_to_do(BatchOf, 5, 5, 1);
  const BatchQueue beyond_the_end(BatchOf, 7, 5, 1);
}

}  // namespace
}  // namespace muster::worker
