#include "common/object_store/http_headers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace muster::testing {
namespace {

TEST(HttpHeaders, ARangeIsRead) {
  const auto range = ParseContentRange("bytes 10-19/100");
  ASSERT_TRUE(range.has_value());
  EXPECT_EQ(range->first, 10u);
  EXPECT_EQ(range->last, 19u);
  EXPECT_EQ(range->total, 100u);
}

TEST(HttpHeaders, ARangeMayLackItsTotalOrItself) {
  const auto no_total = ParseContentRange("bytes 0-9/*");
  ASSERT_TRUE(no_total.has_value());
  EXPECT_FALSE(no_total->total.has_value());
  const auto no_range = ParseContentRange("bytes */7");
  ASSERT_TRUE(no_range.has_value());
  EXPECT_EQ(no_range->total, 7u);
  EXPECT_GT(no_range->first, no_range->last);
}

TEST(HttpHeaders, WhatIsNoRangeIsNothing) {
  for (const char* value :
       {"", "bytes", "bytes 1-2", "bytes 2-1/9", "bytes 0-9/9", "bytes */*", "bytes -1-2/9",
        "lines 0-1/9", "bytes 0-99999999999999999999/*", "bytes 0-1/9x", "bytes0-1/9", "bytes /9",
        "bytes 0x1-2/9", "bytes 1-/9"}) {
    EXPECT_FALSE(ParseContentRange(value).has_value()) << value;
  }
}

TEST(HttpHeaders, ALengthHasDigitsOnly) {
  EXPECT_EQ(ParseLength("0"), 0u);
  EXPECT_EQ(ParseLength("9999999999999999999"), 9999999999999999999u);
  for (const char* value : {"", "-1", "+1", " 1", "1.0", "18446744073709551616"}) {
    EXPECT_FALSE(ParseLength(value).has_value()) << value;
  }
}

TEST(HttpHeaders, OnlyAStrongEtagCanBeAskedFor) {
  EXPECT_TRUE(IsStrongEtag("\"abc\""));
  EXPECT_TRUE(IsStrongEtag("\"\""));
  for (const char* value : {"", "\"", "abc", "W/\"abc\"", "\"a\nb\""}) {
    EXPECT_FALSE(IsStrongEtag(value)) << value;
  }
  EXPECT_FALSE(IsPlainHeaderValue(std::string(2000, 'x')));
}

TEST(HttpHeaders, ADelayIsInSeconds) {
  EXPECT_EQ(ParseRetryAfter(" 3 "), absl::Seconds(3));
  EXPECT_FALSE(ParseRetryAfter("Fri, 24 May 2013 00:00:00 GMT").has_value());
}

}  // namespace
}  // namespace muster::testing
