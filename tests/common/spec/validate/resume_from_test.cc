#include "common/spec/validate/resume_from.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace muster {
namespace {

using ::muster::testing::StatusIs;
using ::testing::HasSubstr;
using Which = ResumeFrom::Which;

TEST(ResumeFromTest, AJobIsAnIdATaskOrAName) {
  EXPECT_EQ(ParseResumeFrom("42")->job_id, 42u);
  EXPECT_EQ(ParseResumeFrom("42")->task, std::nullopt);
  EXPECT_EQ(ParseResumeFrom("42_7")->job_id, 42u);
  EXPECT_EQ(ParseResumeFrom("42_7")->task, 7u);
  EXPECT_EQ(ParseResumeFrom("digits-2")->job_name, "digits-2");
  EXPECT_EQ(ParseResumeFrom("digits-2")->which, Which::kNewestFew);
  EXPECT_FALSE(ParseResumeFrom("digits-2")->automatic);
}

TEST(ResumeFromTest, OneCheckpointIsAStepTheBestOrTheNewest) {
  EXPECT_EQ(ParseResumeFrom("42@120")->which, Which::kStep);
  EXPECT_EQ(ParseResumeFrom("42@120")->step, 120);
  EXPECT_EQ(ParseResumeFrom("42_7@best")->which, Which::kBest);
  EXPECT_EQ(ParseResumeFrom("42_7@best")->task, 7u);
  EXPECT_EQ(ParseResumeFrom("digits@newest")->which, Which::kNewest);
  EXPECT_EQ(ParseResumeFrom("digits@newest")->job_name, "digits");
}

TEST(ResumeFromTest, AutoIsNoJobsName) {
  EXPECT_TRUE(ParseResumeFrom("auto")->automatic);
  EXPECT_EQ(ParseResumeFrom("auto")->job_name, "");
  EXPECT_FALSE(ParseResumeFrom("auto-7")->automatic);
}

TEST(ResumeFromTest, WhatIsNeitherIsRefusedWithWhatIsAllowed) {
  for (const char* bad : {"",
                          "0",
                          "-1",
                          "42_",
                          "_7",
                          "42_x",
                          "x_7",
                          "42_7_1",
                          "42@",
                          "@best",
                          "42@Best",
                          "42@-1",
                          "42@1.5",
                          "42@1@2",
                          "Digits",
                          "a b",
                          "-a",
                          "a-",
                          "/ckpt/job-1/step-5.a1.g1",
                          "99999999999999999999",
                          "42@99999999999999999999"}) {
    EXPECT_THAT(ParseResumeFrom(bad).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("JOB@best, JOB@newest")))
        << bad;
  }
  EXPECT_FALSE(ParseResumeFrom(std::string(64, 'a')).ok());
  EXPECT_FALSE(ParseResumeFrom(std::string(1000, '1')).ok());
}

}  // namespace
}  // namespace muster
