#include "worker/dist/shared_memory/shared_memory_backend.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "tests/worker/dist/every_size.h"
#include "tests/worker/dist/gang.h"

namespace muster::worker {
namespace {

using muster::testing::ExpectBroadcastsFromEveryRank;
using muster::testing::ExpectSumsOfEveryType;
using muster::testing::kSlotBytes;
using muster::testing::RunGang;
using ::testing::Each;
using ::testing::HasSubstr;

CollectivesOptions SharedMemory() {
  CollectivesOptions options;
  options.transport = Transport::kSharedMemory;
  return options;
}

// Of one number, of less and of more than a slot, and of several slots.
constexpr int64_t kBytes[] = {8, 4096, kSlotBytes - 8, kSlotBytes + 8, 3 * kSlotBytes + 24};

TEST(SharedMemoryBackend, SumsEveryTypeAndSizeOverTwoThreeAndFourRanks) {
  for (const int world : {2, 3, 4}) {
    const auto body = [&](std::unique_ptr<Gang> gang) { ExpectSumsOfEveryType(*gang, kBytes); };
    EXPECT_THAT(RunGang(world, body, SharedMemory()), Each(""));
  }
}

TEST(SharedMemoryBackend, BroadcastsEverySizeFromEveryRank) {
  const auto body = [&](std::unique_ptr<Gang> gang) {
    ExpectBroadcastsFromEveryRank(*gang, kBytes);
  };
  EXPECT_THAT(RunGang(3, body, SharedMemory()), Each(""));
}

TEST(SharedMemoryBackend, RanksThatDoDifferentThingsAreToldSo) {
  const auto body = [&](std::unique_ptr<Gang> gang) {
    at::Tensor value = at::ones({4 + gang->rank()});
    gang->AllReduceSum(value);
  };
  EXPECT_THAT(RunGang(2, body, SharedMemory()), Each(HasSubstr("for different things")));
}

TEST(SharedMemoryBackend, RefusesTensorsWithGaps) {
  const auto body = [&](std::unique_ptr<Gang> gang) {
    at::Tensor value = at::ones({4, 4}).slice(1, 0, 2);
    gang->AllReduceSum(value);
  };
  EXPECT_THAT(RunGang(2, body, SharedMemory()), Each(HasSubstr("without gaps")));
}

}  // namespace
}  // namespace muster::worker
