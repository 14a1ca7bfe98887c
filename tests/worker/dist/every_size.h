// What every transport must do for tensors of every size: called on each rank of a gang.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "absl/types/span.h"
#include "worker/dist/collectives.h"
#include "worker/dist/shared_memory/shared_memory_gang.h"

namespace muster::testing {

inline constexpr int64_t kSlotBytes = static_cast<int64_t>(worker::SharedMemoryGang::kSlotBytes);

// `sizes` in bytes.
inline void ExpectSumsOfEveryType(worker::Collectives& gang, absl::Span<const int64_t> sizes) {
  const int world = gang.world_size();
  for (const c10::ScalarType type :
       {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong, at::kByte}) {
    for (const int64_t bytes : sizes) {
      const int64_t count = bytes / static_cast<int64_t>(c10::elementSize(type));
      // Small whole numbers: exact in every type.
      const at::Tensor base = at::arange(count).remainder(15).to(type);
      at::Tensor value = base.add(gang.rank());
      gang.AllReduceSum(value);
      const at::Tensor expected = base.mul(world).add(world * (world - 1) / 2);
      EXPECT_TRUE(at::equal(value, expected)) << type << ", " << bytes << " bytes";
    }
  }
}

inline void ExpectBroadcastsFromEveryRank(worker::Collectives& gang,
                                          absl::Span<const int64_t> sizes) {
  for (const int64_t bytes : sizes) {
    for (int root = 0; root < gang.world_size(); ++root) {
      at::Tensor value = at::arange(bytes).remainder(251).add(gang.rank()).to(at::kByte);
      gang.Broadcast(value, root);
      EXPECT_TRUE(at::equal(value, at::arange(bytes).remainder(251).add(root).to(at::kByte)));
    }
  }
}

}  // namespace muster::testing
