#include "worker/trainer/largest_batch.h"

#include <ATen/Parallel.h>

#include <cstdio>

#include "c10/core/Device.h"
#include "tests/support/status_matchers.h"
#include "worker/train/memory_probe.h"

namespace muster::worker {
namespace {

using muster::testing::StatusIs;
using ::testing::HasSubstr;

trainer_spec::JobSpec Spec() {
  at::set_num_threads(1);  // as the default of train.threads_per_rank: more wait for each other
  trainer_spec::JobSpec spec;
  spec.ranks = {.min = 2, .max = 2};
  spec.train.data.synthetic = {.samples = 256, .shape = {16}, .classes = 4};
  spec.train.model.mlp = {.hidden = {64}};
  spec.train.batch_size = 32;
  spec.train.accumulate = 1;
  spec.train.optimizer.name = trainer_spec::OptimizerName::kAdamw;
  spec.train.optimizer.lr = 0.01;
  spec.train.optimizer.beta1 = 0.9;
  spec.train.optimizer.beta2 = 0.999;
  spec.train.optimizer.eps = 1e-8;
  spec.train.schedule.name = trainer_spec::ScheduleName::kConstant;
  return spec;
}

TEST(LargestBatch, StaysWithinItsLimitAndTwiceAsManyWouldNot) {
  trainer_spec::JobSpec spec = Spec();
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
  trainer_spec::JobSpec spec = Spec();
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
  EXPECT_THAT(FindLargestBatch(Spec(), PosixFileSystem(), 1 << 20).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("one sample")));
}

}  // namespace
}  // namespace muster::worker
