#include "worker/data/parquet/delta_integers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace muster::worker {
namespace {

using ::testing::ElementsAre;

std::string OfBytes(std::initializer_list<int> bytes) {
  return std::string(bytes.begin(), bytes.end());
}

std::vector<int64_t> All(DeltaIntegers numbers) {
  std::vector<int64_t> all;
  for (int64_t value = 0; numbers.Next(value);) all.push_back(value);
  return all;
}

// The second example of Encodings.md: 7, 5, 3, 1, 2, 3, 4, 5 in blocks of 128 of four parts.
std::string Example() {
  return OfBytes({0x80, 0x01, 4, 8, 14, 3, 2, 0, 0, 0, 0xc0, 0x3f, 0, 0, 0, 0, 0, 0});
}

TEST(DeltaIntegersTest, TheExampleOfTheFormatIsRead) {
  const std::string bytes = Example();
  EXPECT_THAT(All(DeltaIntegers(bytes)), ElementsAre(7, 5, 3, 1, 2, 3, 4, 5));
  EXPECT_EQ(DeltaIntegers(bytes).End(), bytes.size());
  const std::string more = bytes + "more";
  EXPECT_EQ(DeltaIntegers(more).End(), bytes.size());
}

TEST(DeltaIntegersTest, NoNumberAndOneNumberHaveNoBlock) {
  const std::string none = OfBytes({0x80, 0x01, 4, 0, 0});
  EXPECT_THAT(All(DeltaIntegers(none)), ElementsAre());
  EXPECT_EQ(DeltaIntegers(none).End(), none.size());
  const std::string one = OfBytes({0x80, 0x01, 4, 1, 3});
  EXPECT_THAT(All(DeltaIntegers(one)), ElementsAre(-2));
  EXPECT_EQ(DeltaIntegers(one).End(), one.size());
}

TEST(DeltaIntegersTest, DifferencesOfSixtyFourBitsWrapAround) {
  // The least number, then the largest: a difference of -1.
  std::string bytes = OfBytes({0x80, 0x01, 1, 2});
  bytes += std::string(9, '\xff') + '\x01';  // zigzag of the least
  bytes += OfBytes({0, 64});
  bytes += std::string(8, '\xff') + std::string(128 * 8 - 8, '\0');
  EXPECT_THAT(All(DeltaIntegers(bytes)), ElementsAre(INT64_MIN, INT64_MAX));
}

TEST(DeltaIntegersTest, WhatIsCutOffEndsEarlyAndBadHeadersAreNone) {
  const std::string bytes = Example();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_LT(All(DeltaIntegers(absl::string_view(bytes).substr(0, size))).size(), 8u) << size;
  }
  EXPECT_EQ(DeltaIntegers(absl::string_view(bytes).substr(0, 10)).End(), ~uint64_t{0});
  EXPECT_FALSE(DeltaIntegers(OfBytes({0x80, 0x01, 0, 8, 14})).ok());  // no part of a block
  EXPECT_FALSE(DeltaIntegers(OfBytes({0x80, 0x01, 3, 8, 14})).ok());  // parts of no whole number
  EXPECT_FALSE(DeltaIntegers(OfBytes({0x00, 4, 8, 14})).ok());        // blocks of nothing
}

}  // namespace
}  // namespace muster::worker
