#include "common/base/rng.h"

#include <gtest/gtest.h>

#include <set>

namespace muster {
namespace {

// First outputs of the reference generator (Vigna's splitmix64.c) for state 0.
TEST(RngTest, SplitMix64MatchesTheReference) {
  EXPECT_EQ(SplitMix64(0), 0xE220A8397B1DCDAFull);
  EXPECT_EQ(SplitMix64(0x9E3779B97F4A7C15ull), 0x6E789E6AA1B965F4ull);
}

TEST(RngTest, DerivedSeedsDifferInEveryArgument) {
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    for (uint64_t purpose = 0; purpose < 8; ++purpose) {
      for (uint64_t position = 0; position < 8; ++position) {
        seen.insert(DeriveSeed(seed, purpose, position));
      }
    }
  }
  EXPECT_EQ(seen.size(), 512u);
}

}  // namespace
}  // namespace muster
