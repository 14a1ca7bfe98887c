#include "worker/train/run/data_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::worker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(DataLimit, SaysNothingOfARunWithoutSteps) { EXPECT_THAT(DataLimitText({}), IsEmpty()); }

TEST(DataLimit, SaysWhenDataCameInTime) {
  EXPECT_EQ(DataLimitText({.seconds = 100, .wait_seconds = 0.5, .threads = 4}),
            "Data came in time: the steps waited 0.5 % of the time for it.");
}

// Steps take 50 seconds by themselves; the threads worked for 300.
TEST(DataLimit, NamesTheStageAndHowManyThreadsMoreWouldDo) {
  const std::string text = DataLimitText({.seconds = 100,
                                          .wait_seconds = 50,
                                          .busy = {.read = 20, .decode = 250, .augment = 30},
                                          .threads = 2});
  EXPECT_THAT(text, HasSubstr("waited 50 % of the time for data, of which decoding took most"));
  EXPECT_THAT(text, HasSubstr("4 more threads"));
  EXPECT_THAT(text, HasSubstr("train.data.threads: 6"));
}

TEST(DataLimit, NamesNoMoreThreadsThanAJobMayHave) {
  const std::string text =
      DataLimitText({.seconds = 100, .wait_seconds = 99, .busy = {.decode = 1000}, .threads = 16});
  EXPECT_THAT(text, AllOf(HasSubstr("more CPUs"), Not(HasSubstr("train.data.threads"))));
}

// Enough of them, and yet the steps waited.
TEST(DataLimit, BlamesNoThreadsWhereThereAreEnough) {
  const std::string text = DataLimitText({.seconds = 100,
                                          .wait_seconds = 10,
                                          .busy = {.read = 50, .decode = 20, .augment = 1},
                                          .threads = 4});
  EXPECT_THAT(text, AllOf(HasSubstr("reading took most"), HasSubstr("not for want of threads")));
}

TEST(DataLimit, OfBatchesThatTheTrainingThreadMakesItNamesTheStage) {
  EXPECT_EQ(DataLimitText({.seconds = 10, .wait_seconds = 5, .busy = {.augment = 5}}),
            "The device waited 50 % of the time for data, of which augmentation took most.");
}

}  // namespace
}  // namespace muster::worker
