#include "worker/data/ahead_plan.h"

#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "tests/support/status_matchers.h"
#include "worker/data/batch_queue.h"

namespace muster::worker {
namespace {

using ::muster::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr DataNeeds kNeeds = {.held = 1000, .batch = 100, .evaluation_batch = 50, .thread = 7};

TEST(AheadPlan, CountsWhatIsThereWhileAnEvaluationRunsBetweenTwoSteps) {
  EXPECT_EQ(TrainingBytes({}, kNeeds), 100 + 7);
  EXPECT_EQ(EvaluationBytes({}, kNeeds), 50 + 7);
  EXPECT_EQ(DataBytes({}, kNeeds), 1000 + 100 + 50 + 2 * 7);
  EXPECT_EQ(DataBytes({.batches = 2, .threads = 4}, kNeeds), 1000 + 3 * 150 + 8 * 7);
}

TEST(AheadPlan, FitsByFewerBatchesThenThreadsThenNoneAhead) {
  const AheadPlan wanted = {.batches = 2, .threads = 4};
  std::vector<AheadPlan> plans;
  for (int64_t limit = DataBytes(wanted, kNeeds); limit >= DataBytes({}, kNeeds); --limit) {
    ASSERT_OK_AND_ASSIGN(const AheadPlan plan, FitAhead(wanted, kNeeds, limit));
    EXPECT_LE(DataBytes(plan, kNeeds), limit);
    if (plans.empty() || plans.back() != plan) plans.push_back(plan);
  }
  EXPECT_EQ(plans, (std::vector<AheadPlan>{{2, 4}, {1, 4}, {1, 3}, {1, 2}, {1, 1}, {0, 1}}));
}

TEST(AheadPlan, ALimitBelowOneBatchIsRefusedWithTheNumbers) {
  EXPECT_THAT(
      FitAhead({.batches = 2, .threads = 4}, kNeeds, DataBytes({}, kNeeds) - 1),
      StatusIs(
          absl::StatusCode::kResourceExhausted,
          AllOf(HasSubstr("is 1.1 KiB"), HasSubstr("1000 B held"), HasSubstr("100 B for a batch"),
                HasSubstr("50 B for one of validation"), HasSubstr("train.batch_size"))));
}

// Bytes that are held now, and the most that were at once.
class Meter {
 public:
  void Add(int64_t bytes) {
    const int64_t now = bytes_ += bytes;
    int64_t most = most_;
    while (now > most && !most_.compare_exchange_weak(most, now)) {
    }
  }
  int64_t now() const { return bytes_; }
  int64_t most() const { return most_; }

 private:
  std::atomic<int64_t> bytes_ = 0;
  std::atomic<int64_t> most_ = 0;
};

// Holds its bytes from its beginning until the last tensor of it goes; who makes its samples holds
// those of a thread meanwhile.
class MeteredBatch final : public PendingBatch {
 public:
  MeteredBatch(Meter& meter, int64_t bytes, int64_t thread_bytes)
      : meter_(meter), thread_bytes_(thread_bytes) {
    meter.Add(bytes);
    inputs_ = at::from_blob(
        new char[static_cast<size_t>(bytes)], {bytes},
        [&meter, bytes](void* data) {
          delete[] static_cast<char*>(data);
          meter.Add(-bytes);
        },
        at::kByte);
  }
  int64_t samples() const override { return 16; }
  absl::Status Make(int64_t, int64_t, SampleScratch&) override {
    meter_.Add(thread_bytes_);
    meter_.Add(-thread_bytes_);
    return absl::OkStatus();
  }
  Batch Finish() override { return {.inputs = inputs_}; }

 private:
  Meter& meter_;
  const int64_t thread_bytes_;
  at::Tensor inputs_;
};

TEST(AheadPlan, TheBytesOfAStepAndAnEvaluationStayBelowTheLimit) {
  const DataNeeds needs = {.batch = 100'000, .evaluation_batch = 60'000, .thread = 3'000};
  const AheadPlan wanted = {.batches = 2, .threads = 4};
  for (const int64_t limit : {163'000, 166'000, 340'000, 400'000, 600'000}) {
    const absl::StatusOr<AheadPlan> plan = FitAhead(wanted, needs, limit);
    if (limit < DataBytes({}, needs)) {
      EXPECT_THAT(plan, StatusIs(absl::StatusCode::kResourceExhausted));
      continue;
    }
    ASSERT_OK(plan);
    Meter meter;
    const auto begin = [&](int64_t bytes) {
      return [&meter, &needs, bytes](uint64_t) {
        return std::make_unique<MeteredBatch>(meter, bytes, needs.thread);
      };
    };
    {
      BatchQueue training(begin(needs.batch), 0, 6, *plan);
      for (int step = 0; step < 6; ++step) {
        const absl::StatusOr<Batch> batch = training.Next();
        ASSERT_OK(batch);
        BatchQueue evaluation(begin(needs.evaluation_batch), 0, 8, *plan);
        for (int index = 0; index < 8; ++index) ASSERT_OK(evaluation.Next());
      }
    }
    EXPECT_LE(meter.most(), limit);
    EXPECT_GE(meter.most(), needs.batch + needs.evaluation_batch);
    EXPECT_EQ(meter.now(), 0);
  }
}

}  // namespace
}  // namespace muster::worker
