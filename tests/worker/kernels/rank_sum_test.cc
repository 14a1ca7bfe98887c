#include "worker/kernels/rank_sum.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

namespace muster::worker {
namespace {

constexpr c10::ScalarType kTypes[] = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf,
                                      at::kLong,  at::kInt,    at::kByte};

// The sum as torch adds: in floats where the numbers are half ones, rank after rank.
at::Tensor Expected(const std::vector<at::Tensor>& ranks, double scale) {
  const c10::ScalarType type = ranks[0].scalar_type();
  const bool half = type == at::kHalf || type == at::kBFloat16;
  at::Tensor sum = ranks[0].to(half ? at::kFloat : type, /*non_blocking=*/false, /*copy=*/true);
  for (size_t rank = 1; rank < ranks.size(); ++rank) sum.add_(ranks[rank].to(sum.scalar_type()));
  if (scale != 1) sum.mul_(scale);
  return sum.to(type);
}

TEST(RankSum, EqualsTorchsSumInTheOrderOfRanksForEveryTypeAndSize) {
  for (const c10::ScalarType type : kTypes) {
    for (const int world : {2, 3, 5}) {
      for (const int64_t count : {1, 7, 8, 1023, 1024, 5001}) {
        std::vector<at::Tensor> ranks;
        std::vector<const void*> terms;
        for (int rank = 0; rank < world; ++rank) {
          ranks.push_back(at::randn({count}).mul(100).abs().clamp_max(40).to(type));
          terms.push_back(ranks.back().const_data_ptr());
        }
        const double scale = c10::isFloatingType(type) ? 1.0 / world : 1.0;
        const at::Tensor expected = Expected(ranks, scale);
        at::Tensor out = at::empty({count}, type);
        SumRanks(type, terms, scale, count, out.data_ptr());
        EXPECT_TRUE(at::equal(out, expected)) << type << " of " << world << ", " << count;
        // Over one of its own terms.
        SumRanks(type, terms, scale, count, ranks[1].data_ptr());
        EXPECT_TRUE(at::equal(ranks[1], expected)) << type << " in place";
      }
    }
  }
}

TEST(RankSum, KnowsWhatItCannotAdd) {
  EXPECT_FALSE(CanSum(at::kBool));
  EXPECT_FALSE(CanSum(at::kComplexFloat));
}

}  // namespace
}  // namespace muster::worker
