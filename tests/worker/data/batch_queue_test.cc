#include "worker/data/batch_queue.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace muster::worker {
namespace {

using ::muster::testing::StatusIs;

// Its inputs are step x 1000 + the place of each sample.
class CountedBatch : public PendingBatch {
 public:
  CountedBatch(uint64_t step, int64_t samples)
      : step_(step), made_(static_cast<size_t>(samples)), inputs_(at::full({samples}, -1.0)) {}

  int64_t samples() const override { return static_cast<int64_t>(made_.size()); }
  absl::Status Make(int64_t begin, int64_t end, SampleScratch& /*scratch*/) override {
    for (int64_t place = begin; place < end; ++place) {
      made_[static_cast<size_t>(place)] += 1;
      inputs_.data_ptr<float>()[place] =
          static_cast<float>(step_ * 1000) + static_cast<float>(place);
    }
    return absl::OkStatus();
  }
  Batch Finish() override {
    for (const std::atomic<int>& made : made_) EXPECT_EQ(made, 1);
    return {.inputs = inputs_, .count = static_cast<int64_t>(step_)};
  }

 private:
  const uint64_t step_;
  std::vector<std::atomic<int>> made_;
  at::Tensor inputs_;
};

constexpr int64_t kSamples = 37;

std::unique_ptr<PendingBatch> BatchOf(uint64_t step) {
  return std::make_unique<CountedBatch>(step, kSamples);
}

// Fails or throws where it is told to.
class FailingBatch final : public CountedBatch {
 public:
  FailingBatch(uint64_t step, std::vector<int64_t> broken, bool throws)
      : CountedBatch(step, kSamples), broken_(std::move(broken)), throws_(throws) {}
  absl::Status Make(int64_t begin, int64_t end, SampleScratch& scratch) override {
    for (const int64_t place : broken_) {
      if (place < begin || place >= end) continue;
      if (throws_) throw std::runtime_error("no memory");
      return absl::DataLossError(absl::StrCat("sample ", place));
    }
    return CountedBatch::Make(begin, end, scratch);
  }
  Batch Finish() override {
    ADD_FAILURE() << "a batch with a broken sample is finished";
    return {};
  }

 private:
  const std::vector<int64_t> broken_;
  const bool throws_;
};

const std::vector<AheadPlan> kPlans = {{0, 0}, {0, 1}, {0, 3}, {1, 1}, {3, 1}, {1, 4}, {3, 8}};

TEST(BatchQueue, GivesTheWholeBatchOfEachStepInOrder) {
  for (const AheadPlan& plan : kPlans) {
    BatchQueue queue(BatchOf, 3, 60, plan);
    for (uint64_t step = 3; step < 60; ++step) {
      const absl::StatusOr<Batch> batch = queue.Next();
      ASSERT_OK(batch);
      EXPECT_EQ(batch->count, static_cast<int64_t>(step));
      const float* values = batch->inputs.data_ptr<float>();
      for (int64_t place = 0; place < kSamples; ++place)
        ASSERT_EQ(values[place], static_cast<float>(step * 1000) + static_cast<float>(place));
    }
  }
}

TEST(BatchQueue, IsNoFurtherAheadThanItsBound) {
  for (const AheadPlan& plan : kPlans) {
    std::atomic<int64_t> begun = 0;
    BatchQueue queue(
        [&begun](uint64_t step) {
          ++begun;
          return BatchOf(step);
        },
        0, 100, plan);
    for (int64_t taken = 1; taken <= 50; ++taken) {
      ASSERT_OK(queue.Next());
      EXPECT_LE(begun, taken + plan.batches);
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
      0, 2, {1, 1});
  const absl::StatusOr<Batch> first = queue.Next();
  second_begun.get_future().wait();  // for ever, if it waited for the next call
  ASSERT_OK(first);
  EXPECT_EQ(first->count, 0);
}

// Each of two threads makes a sample that the other's waits for.
TEST(BatchQueue, SeveralThreadsMakeTheSamplesOfOneBatch) {
  class Meeting final : public CountedBatch {
   public:
    Meeting() : CountedBatch(0, 2) {}
    absl::Status Make(int64_t begin, int64_t end, SampleScratch& scratch) override {
      if (begin == end) return absl::OkStatus();
      here_[begin].set_value();
      here_[1 - begin].get_future().wait();
      return CountedBatch::Make(begin, end, scratch);
    }

   private:
    std::promise<void> here_[2];
  };
  BatchQueue queue([](uint64_t) { return std::make_unique<Meeting>(); }, 0, 1, {1, 2});
  EXPECT_OK(queue.Next());
}

TEST(BatchQueue, ABrokenSampleFailsItsBatchAndNoOther) {
  for (const AheadPlan& plan : kPlans) {
    BatchQueue queue(
        [](uint64_t step) -> std::unique_ptr<PendingBatch> {
          if (step != 2) return BatchOf(step);
          return std::make_unique<FailingBatch>(step, std::vector<int64_t>{5}, /*throws=*/false);
        },
        0, 10, plan);
    EXPECT_OK(queue.Next());
    EXPECT_OK(queue.Next());
    const absl::StatusOr<Batch> broken = queue.Next();
    EXPECT_THAT(broken, StatusIs(absl::StatusCode::kDataLoss));
    EXPECT_EQ(broken.status().message(), "sample 5");
    EXPECT_OK(queue.Next());
  }
}

TEST(BatchQueue, ThrowsWhatTheMakingOfThatBatchThrew) {
  for (const AheadPlan& plan : kPlans) {
    BatchQueue queue(
        [](uint64_t step) -> std::unique_ptr<PendingBatch> {
          if (step == 1) throw std::runtime_error("no such batch");
          if (step != 2) return BatchOf(step);
          return std::make_unique<FailingBatch>(step, std::vector<int64_t>{5}, /*throws=*/true);
        },
        0, 10, plan);
    EXPECT_OK(queue.Next());
    EXPECT_THROW((void)queue.Next(), std::runtime_error);
    EXPECT_THROW((void)queue.Next(), std::runtime_error);
    EXPECT_OK(queue.Next());
  }
}

TEST(BatchQueue, ABatchOfNothingIsFinished) {
  for (const AheadPlan& plan : kPlans) {
    BatchQueue queue([](uint64_t step) { return std::make_unique<CountedBatch>(step, 0); }, 0, 3,
                     plan);
    for (int i = 0; i < 3; ++i) EXPECT_OK(queue.Next());
  }
}

// Its samples are not made before `door` opens.
class ClosedBatch final : public CountedBatch {
 public:
  ClosedBatch(uint64_t step, std::shared_future<void> door)
      : CountedBatch(step, kSamples), door_(std::move(door)) {}
  absl::Status Make(int64_t begin, int64_t end, SampleScratch& scratch) override {
    door_.wait();
    return CountedBatch::Make(begin, end, scratch);
  }
  std::string InTheMaking() const override { return "the first sample"; }

 private:
  const std::shared_future<void> door_;
};

TEST(BatchQueue, ABatchThatIsNotWaitedForIsStillTheNextOne) {
  for (const AheadPlan& plan : {AheadPlan{0, 1}, AheadPlan{2, 2}}) {
    std::promise<void> door;
    BatchQueue queue(
        [opened = door.get_future().share()](uint64_t step) -> std::unique_ptr<PendingBatch> {
          if (step != 1) return BatchOf(step);
          return std::make_unique<ClosedBatch>(step, opened);
        },
        0, 10, plan);
    EXPECT_OK(queue.Next());
    int asked = 0;
    std::string made;
    const auto goes_on = [&] {
      made = queue.InTheMaking();
      return ++asked < 3;
    };
    EXPECT_THAT(queue.Next(goes_on), StatusIs(absl::StatusCode::kCancelled));
    EXPECT_EQ(asked, 3);
    EXPECT_EQ(made, "the first sample");
    door.set_value();
    for (const int64_t step : {1, 2, 3}) {
      const absl::StatusOr<Batch> batch = queue.Next([] { return true; });
      ASSERT_OK(batch);
      EXPECT_EQ(batch->count, step);
    }
  }
}

TEST(BatchQueue, MayBeLeftWithBatchesThatNobodyTook) {
  for (const int threads : {1, 4}) {
    for (int taken = 0; taken < 3; ++taken) {
      BatchQueue queue(BatchOf, 0, 1000, {2, threads});
      for (int i = 0; i < taken; ++i) EXPECT_OK(queue.Next());
    }
    const BatchQueue nothing_to_do(BatchOf, 5, 5, {1, threads});
    const BatchQueue beyond_the_end(BatchOf, 7, 5, {1, threads});
  }
}

}  // namespace
}  // namespace muster::worker
