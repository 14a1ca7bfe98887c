#include "worker/trainer/tools/largest_batch.h"

#include <cstdio>

#include "c10/core/Device.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/trainer/small_spec.h"
#include "worker/train/memory/memory_probe.h"

namespace muster::worker {
namespace {

using muster::testing::SmallSpec;
using muster::testing::StatusIs;
using ::testing::HasSubstr;

TEST(LargestBatch, StaysWithinItsLimitAndTwiceAsManyWouldNot) {
  trainer_spec::JobSpec spec = SmallSpec();
  spec.train.data.synthetic->samples = 1 << 14;  // 64 B each
  spec.train.model.mlp = {.hidden = {1 << 14}};  // 64 KiB for each activation of a sample
  const int64_t limit = MeasureMemory(at::kCPU).peak_bytes + (int64_t{128} << 20);
  ASSERT_OK_AND_ASSIGN(const LargestBatch largest,
                       FindLargestBatch(spec, PosixFileSystem(), limit));
  std::printf("within %ld bytes: %s", limit, BatchText(largest).c_str());
  EXPECT_GE(largest.samples, 32);
  EXPECT_LE(largest.peak_bytes, limit);
  EXPECT_GT(largest.next_peak_bytes, limit);
  EXPECT_EQ(largest.most_samples, 1 << 13) << "of two ranks";
  EXPECT_THAT(BatchText(largest), HasSubstr("twice as many come to"));
}

TEST(LargestBatch, IsNoLargerThanWhatTheTrainingSetHasForARank) {
  const int64_t limit = int64_t{1} << 40;
  trainer_spec::JobSpec spec = SmallSpec();
  spec.train.data.synthetic->samples = 200;
  ASSERT_OK_AND_ASSIGN(const LargestBatch two, FindLargestBatch(spec, PosixFileSystem(), limit));
  EXPECT_EQ(two.samples, 64);  // of 100
  EXPECT_EQ(two.next_peak_bytes, 0);
  EXPECT_THAT(BatchText(two), HasSubstr("the training set has no more than 100 for a rank"));
  spec.ranks = {.min = 1, .max = 1};
  spec.train.data.subset = 128;
  ASSERT_OK_AND_ASSIGN(const LargestBatch one, FindLargestBatch(spec, PosixFileSystem(), limit));
  EXPECT_EQ(one.samples, 128);
}

TEST(LargestBatch, SaysThatNotEvenOneSampleFits) {
  EXPECT_THAT(FindLargestBatch(SmallSpec(), PosixFileSystem(), 1 << 20).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("one sample")));
}

}  // namespace
}  // namespace muster::worker
