// GoogleTest matchers for absl::Status and StatusOr; absl of Debian 12 has none.
//   EXPECT_OK(status_or); ASSERT_OK_AND_ASSIGN(auto x, F());
//   EXPECT_THAT(F(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("job 42")));
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster::testing {

inline const absl::Status& ToStatus(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& ToStatus(const absl::StatusOr<T>& value) {
  return value.status();
}

MATCHER(IsOk, "is OK") {
  *result_listener << ToStatus(arg).ToString();
  return ToStatus(arg).ok();
}

MATCHER_P(StatusIs, code, std::string("has status ") + absl::StatusCodeToString(code)) {
  *result_listener << ToStatus(arg).ToString();
  return ToStatus(arg).code() == code;
}

MATCHER_P2(StatusIs, code, message, std::string("has status ") + absl::StatusCodeToString(code)) {
  *result_listener << ToStatus(arg).ToString();
  return ToStatus(arg).code() == code &&
         ::testing::ExplainMatchResult(message, std::string(ToStatus(arg).message()),
                                       result_listener);
}

}  // namespace muster::testing

#define EXPECT_OK(expr) EXPECT_THAT((expr), ::muster::testing::IsOk())
#define ASSERT_OK(expr) ASSERT_THAT((expr), ::muster::testing::IsOk())
#define MUSTER_TEST_CONCAT_INNER(a, b) a##b
#define MUSTER_TEST_CONCAT(a, b) MUSTER_TEST_CONCAT_INNER(a, b)
#define ASSERT_OK_AND_ASSIGN(decl, expr) \
  ASSERT_OK_AND_ASSIGN_IMPL(MUSTER_TEST_CONCAT(test_or_, __LINE__), decl, expr)
#define ASSERT_OK_AND_ASSIGN_IMPL(tmp, decl, expr) \
  auto tmp = (expr);                               \
  ASSERT_OK(tmp);                                  \
  decl = *std::move(tmp)
