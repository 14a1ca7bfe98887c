#include "worker/dist/shared_memory_backend.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "tests/worker/dist/gang.h"

namespace muster::worker {
namespace {

using muster::testing::RunGang;
using ::testing::Each;
using ::testing::HasSubstr;

CollectivesOptions SharedMemory() {
  CollectivesOptions options;
  options.transport = Transport::kSharedMemory;
  return options;
}

// Of one number, of less and of more than a slot, and of several slots.
constexpr int64_t kSlotBytes = static_cast<int64_t>(SharedMemoryGang::kSlotBytes);
constexpr int64_t kBytes[] = {8, 4096, kSlotBytes - 8, kSlotBytes + 8, 3 * kSlotBytes + 24};

TEST(SharedMemoryBackend, SumsEveryTypeAndSizeOverTwoThreeAndFourRanks) {
  for (const int world : {2, 3, 4}) {
    const auto body = [&](std::unique_ptr<Collectives> gang) {
      for (const c10::ScalarType type :
           {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong, at::kByte}) {
        for (const int64_t bytes : kBytes) {
          const int64_t count = bytes / static_cast<int64_t>(c10::elementSize(type));
          // Small whole numbers: exact in every type.
          const at::Tensor base = at::arange(count).remainder(15).to(type);
          at::Tensor value = base.add(gang->rank());
          gang->AllReduceSum(value);
          const at::Tensor expected = base.mul(world).add(world * (world - 1) / 2);
          EXPECT_TRUE(at::equal(value, expected)) << type << ", " << bytes << " bytes";
        }
      }
    };
    EXPECT_THAT(RunGang(world, body, SharedMemory()), Each(""));
  }
}

TEST(SharedMemoryBackend, BroadcastsEverySizeFromEveryRank) {
  const auto body = [&](std::unique_ptr<Collectives> gang) {
    for (const int64_t bytes : kBytes) {
      for (int root = 0; root < 3; ++root) {
        at::Tensor value = at::arange(bytes).remainder(251).add(gang->rank()).to(at::kByte);
        gang->Broadcast(value, root);
        EXPECT_TRUE(at::equal(value, at::arange(bytes).remainder(251).add(root).to(at::kByte)));
      }
    }
  };
  EXPECT_THAT(RunGang(3, body, SharedMemory()), Each(""));
}

TEST(SharedMemoryBackend, RanksThatDoDifferentThingsAreToldSo) {
  const auto body = [&](std::unique_ptr<Collectives> gang) {
    at::Tensor value = at::ones({4 + gang->rank()});
    gang->AllReduceSum(value);
  };
  EXPECT_THAT(RunGang(2, body, SharedMemory()), Each(HasSubstr("for different things")));
}

TEST(SharedMemoryBackend, RefusesTensorsWithGaps) {
  const auto body = [&](std::unique_ptr<Collectives> gang) {
    at::Tensor value = at::ones({4, 4}).slice(1, 0, 2);
    gang->AllReduceSum(value);
  };
  EXPECT_THAT(RunGang(2, body, SharedMemory()), Each(HasSubstr("without gaps")));
}

}  // namespace
}  // namespace muster::worker
