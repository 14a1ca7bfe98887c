#include "worker/data/augment/pair_mix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace muster::worker {
namespace {

using ::testing::FloatNear;
using ::testing::Pointwise;

RandomStream StreamOf(uint64_t position) { return RandomStream(3, 13, {0, position}); }

double MeanOf(const std::vector<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

TEST(PairMix, MixupBlendsEachWithTheOtherByTheSameShare) {
  RandomStream random = StreamOf(0);
  const PairMix mix = DrawPairMix(1, 0, 1, 2, random);
  EXPECT_FALSE(mix.pastes);
  EXPECT_GT(mix.share, 0);
  EXPECT_LT(mix.share, 1);
  std::vector<float> one = {0.25f, 1.0f}, other = {0.5f, 0.0f};
  MixPair(mix, {one.data(), 1, 1, 2}, {other.data(), 1, 1, 2});
  EXPECT_THAT(
      one, Pointwise(FloatNear(1e-6f), {0.25f * mix.share + 0.5f * mix.rest(), 1.0f * mix.share}));
  EXPECT_THAT(other, Pointwise(FloatNear(1e-6f),
                               {0.5f * mix.share + 0.25f * mix.rest(), 1.0f * mix.rest()}));
}

TEST(PairMix, SharesAreExactFloatsThatAddToOne) {
  for (uint64_t position = 0; position < 500; ++position) {
    RandomStream random = StreamOf(position);
    const PairMix mix = DrawPairMix(0.2, 0.2, 17, 33, random);
    const double share = mix.share * 0x1.0p24;
    EXPECT_EQ(share, static_cast<double>(static_cast<int64_t>(share)));
    EXPECT_EQ(static_cast<double>(mix.share) + static_cast<double>(mix.rest()), 1.0);
  }
}

TEST(PairMix, CutmixPastesAsMuchAsTheShareSays) {
  for (uint64_t position = 0; position < 50; ++position) {
    RandomStream random = StreamOf(position);
    const PairMix mix = DrawPairMix(0, 1, 8, 6, random);
    EXPECT_TRUE(mix.pastes);
    std::vector<float> black(3 * 8 * 6, 0.0f), white(3 * 8 * 6, 1.0f);
    MixPair(mix, {black.data(), 3, 8, 6}, {white.data(), 3, 8, 6});
    EXPECT_NEAR(MeanOf(black), mix.rest(), 1e-6);
    EXPECT_NEAR(MeanOf(white), mix.share, 1e-6);
  }
}

TEST(PairMix, BothDrawsOneOfThem) {
  int pastes = 0;
  for (uint64_t position = 0; position < 400; ++position) {
    RandomStream random = StreamOf(position);
    pastes += DrawPairMix(1, 1, 8, 8, random).pastes;
  }
  EXPECT_NEAR(pastes, 200, 50);
}

}  // namespace
}  // namespace muster::worker
