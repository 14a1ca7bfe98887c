#include "controller/web/gateway/query_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/v1/job_service.pb.h"
#include "muster/v1/page_service.pb.h"
#include "tests/support/status_matchers.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(QueryFieldsTest, SetsNumbersTextsSwitchesEnumsAndLists) {
  v1::FindJobsRequest request;
  ASSERT_OK(SetFields({{"states", "RUNNING"},
                       {"states", "FAILED"},
                       {"text", "a b"},
                       {"order", "NAME"},
                       {"ascending", "true"},
                       {"offset", "50"}},
                      request));
  EXPECT_THAT(request.states(), ElementsAre(v1::RUNNING, v1::FAILED));
  EXPECT_EQ(request.text(), "a b");
  EXPECT_EQ(request.order(), v1::FindJobsRequest::NAME);
  EXPECT_TRUE(request.ascending());
  EXPECT_EQ(request.offset(), 50u);
  v1::QueryMetricsRequest metrics;
  ASSERT_OK(SetFields({{"from_step", "9000000000"}, {"rank", "0"}}, metrics));
  EXPECT_EQ(metrics.from_step(), 9000000000);
  EXPECT_TRUE(metrics.has_rank());
}

TEST(QueryFieldsTest, WhatIsNoFieldOrNoValueIsNamed) {
  v1::FindJobsRequest request;
  EXPECT_THAT(SetFields({{"colour", "red"}}, request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("colour")));
  for (const auto& [key, value] :
       std::multimap<std::string, std::string>{{"offset", "-1"},
                                               {"offset", "x"},
                                               {"states", "LOST"},
                                               {"ascending", "perhaps"},
                                               {"page_size", "4294967296"}}) {
    EXPECT_THAT(SetFields({{key, value}}, request),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(key)))
        << value;
  }
  v1::GetJobRequest job;
  EXPECT_THAT(SetFields({{"job", "1"}}, job), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace muster::controller
