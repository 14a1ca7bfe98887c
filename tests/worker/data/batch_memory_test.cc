#include "worker/data/batch_memory.h"

#include <utility>

#include "gtest/gtest.h"

namespace muster::worker {
namespace {

TEST(BatchMemory, GivesTheMemoryOfABatchThatIsOver) {
  BatchMemory memory(/*pinned=*/false);
  at::Tensor first = memory.Take({4, 1000}, at::kFloat);
  const void* lies_at = first.data_ptr();
  const at::Tensor second = memory.Take({4, 1000}, at::kFloat);
  EXPECT_NE(second.data_ptr(), lies_at);
  first.reset();
  EXPECT_EQ(memory.Take({4, 1000}, at::kFloat).data_ptr(), lies_at);
}

TEST(BatchMemory, LeavesWhatAViewOrACopyOfTheTensorStillHolds) {
  BatchMemory memory(false);
  at::Tensor whole = memory.Take({4, 1000}, at::kFloat);
  const at::Tensor part = whole.narrow(0, 1, 2);
  const void* lies_at = std::exchange(whole, {}).data_ptr();
  at::Tensor other = memory.Take({4, 1000}, at::kFloat);
  EXPECT_NE(other.data_ptr(), lies_at);
  const at::Tensor same = other;
  const void* other_lies_at = std::exchange(other, {}).data_ptr();
  EXPECT_NE(memory.Take({4, 1000}, at::kFloat).data_ptr(), other_lies_at);
}

TEST(BatchMemory, GivesTheSizeAndTypeThatAreAskedFor) {
  BatchMemory memory(false);
  memory.Take({4, 1000}, at::kFloat);
  const at::Tensor shorter = memory.Take({3, 1000}, at::kFloat);
  EXPECT_EQ(shorter.sizes(), (std::vector<int64_t>{3, 1000}));
  const at::Tensor classes = memory.Take({3, 1000}, at::kLong);
  EXPECT_EQ(classes.scalar_type(), at::kLong);
  EXPECT_NE(classes.data_ptr(), shorter.data_ptr());
}

}  // namespace
}  // namespace muster::worker
