#include "worker/data/base/random_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

#include "worker/data/base/philox.h"

namespace muster::worker {
namespace {

using ::testing::ElementsAre;

// The known answers that the authors publish with Random123 (kat_vectors, philox4x32 with 10
// rounds).
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_THAT(Philox4x32({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
  EXPECT_THAT(
      Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
      ElementsAre(0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu));
  EXPECT_THAT(
      Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      ElementsAre(0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u));
}

// The counter is part of what a seed means: a run that goes on under a new version must draw the
// same numbers.
TEST(RandomStream, CountsBlocksOfItsOperationPositionAndEpoch) {
  const uint64_t seed = 0x299f31d0a4093822;
  RandomStream random(seed, 7, {0x12345678, 0x00abcdef90123456});
  const PhiloxKey key = {0xa4093822, 0x299f31d0};
  for (uint32_t block = 0; block < 3; ++block) {
    const auto bits = Philox4x32({block, 0x90123456, 0x07abcdef, 0x12345678}, key);
    EXPECT_EQ(random.Bits(), uint64_t{bits[1]} << 32 | bits[0]);
    EXPECT_EQ(random.Bits(), uint64_t{bits[3]} << 32 | bits[2]);
  }
}

TEST(RandomStream, DiffersByEachOfItsArguments) {
  std::set<uint64_t> first = {RandomStream(1, 1, {0, 0}).Bits(),
                              RandomStream(2, 1, {0, 0}).Bits(),
                              RandomStream(1, 2, {0, 0}).Bits(),
                              RandomStream(1, 1, {1, 0}).Bits(),
                              RandomStream(1, 1, {0, 1}).Bits(),
                              RandomStream(1, 1, {0, uint64_t{1} << 32}).Bits(),
                              RandomStream(uint64_t{1} << 32 | 1, 1, {0, 0}).Bits()};
  EXPECT_EQ(first.size(), 7u);
}

TEST(RandomStream, ACopyGoesOnByItself) {
  RandomStream random(1, 1, {0, 0});
  random.Bits();
  RandomStream copy = random;
  const uint64_t next = random.Bits();
  EXPECT_EQ(copy.Bits(), next);
}

TEST(RandomStream, DrawsFromTheDistributionsItNames) {
  RandomStream random(1, 1, {0, 0});
  double sum = 0;
  std::array<int, 3> counts{};
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    sum += random.Uniform(2, 4);
    ++counts[static_cast<size_t>(random.Below(3))];
  }
  EXPECT_NEAR(sum / kDraws, 3, 0.02);
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 3.0, 250);
}

TEST(RandomStream, BelowTakesAnyCount) {
  RandomStream random(1, 1, {0, 0});
  EXPECT_EQ(random.Below(1), 0);
  for (int i = 0; i < 100; ++i) {
    const int64_t drawn = random.Below(INT64_MAX);
    EXPECT_GE(drawn, 0);
    EXPECT_LT(drawn, INT64_MAX);
  }
}

// Mean and variance of Beta(a, a): 1/2 and 1 / (4 (2 a + 1)); the smallest alphas give 0 or 1.
TEST(RandomStream, BetaHasItsMeanAndVarianceAtAnyAlpha) {
  for (const double alpha : {1e-9, 0.01, 0.2, 0.999, 1.0, 1.001, 2.0, 10.0}) {
    RandomStream random(1, 1, {0, 0});
    double sum = 0, squares = 0;
    constexpr int kDraws = 20000;
    for (int i = 0; i < kDraws; ++i) {
      const double beta = random.Beta(alpha);
      ASSERT_GE(beta, 0) << alpha;
      ASSERT_LE(beta, 1) << alpha;
      sum += beta;
      squares += (beta - 0.5) * (beta - 0.5);
    }
    EXPECT_NEAR(sum / kDraws, 0.5, 0.012) << alpha;
    const double variance = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(squares / kDraws, variance, variance * 0.04) << alpha;
  }
}

}  // namespace
}  // namespace muster::worker
