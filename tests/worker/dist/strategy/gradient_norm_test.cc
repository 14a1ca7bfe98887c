#include "worker/dist/strategy/gradient_norm.h"

#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace muster::worker {
namespace {

double NormOf(const std::vector<at::Tensor>& gradients) {
  const at::Tensor norm = GradientNorm(gradients);
  EXPECT_EQ(norm.dim(), 0);
  EXPECT_EQ(norm.scalar_type(), at::kFloat);
  return norm.item<double>();
}

TEST(GradientNorm, IsThatOfAllGradientsAsOneVector) {
  for (const int64_t count : {1, 31, 32, 33, 4096, 4127, 70001}) {
    const at::Tensor a = at::randn({count}), b = at::randn({3, 5});
    const double expected = std::sqrt(a.to(at::kDouble).square().sum().item<double>() +
                                      b.to(at::kDouble).square().sum().item<double>());
    EXPECT_NEAR(NormOf({a, b}), expected, 1e-6 * expected) << count;
  }
}

TEST(GradientNorm, TakesGradientsWithGaps) {
  const at::Tensor whole = at::randn({8, 10});
  const at::Tensor part = whole.narrow(1, 0, 3);
  EXPECT_NEAR(NormOf({part}), at::linalg_vector_norm(part, 2).item<double>(), 1e-5);
}

TEST(GradientNorm, IsNotFiniteWhereOneNumberIsNot) {
  for (const double bad :
       {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN()}) {
    for (const int64_t place : {0, 31, 5000, 5001}) {
      at::Tensor gradient = at::randn({5002});
      gradient[place].fill_(bad);
      EXPECT_FALSE(std::isfinite(NormOf({at::randn({4}), gradient}))) << bad << " at " << place;
    }
  }
}

}  // namespace
}  // namespace muster::worker
