#include "worker/trainer/rank/rank_parts.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>

#include "common/base/status_macros.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/trainer/numpy_pictures.h"
#include "worker/train/run/failure.h"
#include "worker/train/step/evaluate.h"

namespace muster::worker {
namespace {

using muster::testing::StatusIs;
using muster::testing::TempDir;
using muster::testing::WriteNumpyPictures;
using ::testing::AllOf;
using ::testing::HasSubstr;

trainer_spec::JobSpec SpecOf(const std::string& pictures) {
  trainer_spec::JobSpec spec;
  spec.ranks = {.min = 1, .max = 1};
  spec.train.data.numpy = {.path = pictures, .mean = {0.5, 0.5, 0.5}, .std = {0.3, 0.3, 0.3}};
  spec.train.model.mlp = {.hidden = {8}};
  spec.train.batch_size = 16;
  spec.train.steps = 10;
  spec.train.seed = 1;
  return spec;
}

absl::StatusOr<RankParts> PartsOf(const trainer_spec::JobSpec& spec) {
  MUSTER_ASSIGN_OR_RETURN(RankParts parts, BuildParts(spec, PosixFileSystem(), RankPlace()));
  MUSTER_RETURN_IF_ERROR(JoinParts(spec, PosixFileSystem(), Gang::OfOne(), parts));
  return parts;
}

Evaluation Assess(Split split, const RankParts& parts) { return *Evaluate(split, parts.trainer()); }

TEST(RankParts, ALimitOfMemoryThatIsTooSmallFailsTheStartWithTheNumbers) {
  TempDir pictures;
  WriteNumpyPictures(pictures.path(), /*size=*/4, /*classes=*/3);
  trainer_spec::JobSpec spec = SpecOf(pictures.path());
  spec.train.data.memory_limit = "1KiB";
  const absl::Status refused = PartsOf(spec).status();
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted,
                                AllOf(HasSubstr("train.data.memory_limit is 1.0 KiB"),
                                      HasSubstr("for a batch"))));
  EXPECT_EQ(FailureClassOf(refused), "START_FAILED");
  spec.train.data.memory_limit = "1MiB";
  EXPECT_OK(PartsOf(spec));
}

TEST(RankParts, ValidateOnSoManySamplesOnlyAndTestOnAll) {
  TempDir pictures;
  WriteNumpyPictures(pictures.path(), /*size=*/4, /*classes=*/3);
  trainer_spec::JobSpec spec = SpecOf(pictures.path());
  ASSERT_OK_AND_ASSIGN(const RankParts all, PartsOf(spec));
  EXPECT_EQ(Assess(Split::kValidation, all).samples, 11);
  spec.train.validate_samples = 7;
  ASSERT_OK_AND_ASSIGN(const RankParts seven, PartsOf(spec));
  const Evaluation validation = Assess(Split::kValidation, seven);
  EXPECT_EQ(validation.samples, 7);
  EXPECT_EQ(Assess(Split::kTest, seven).samples, 13);
  EXPECT_EQ(seven.dataset->size(Split::kTrain), 103);

  // Always the same: those of another seed, too.
  EXPECT_EQ(Assess(Split::kValidation, *PartsOf(spec)).loss, validation.loss);
  spec.train.seed = 2;
  ASSERT_OK_AND_ASSIGN(const RankParts other, PartsOf(spec));
  EXPECT_TRUE(at::equal(other.dataset->Range(Split::kValidation, 0, 7).inputs,
                        seven.dataset->Range(Split::kValidation, 0, 7).inputs));

  spec.train.validate_samples = 1000;  // more than there are
  EXPECT_EQ(Assess(Split::kValidation, *PartsOf(spec)).samples, 11);
}

TEST(RankParts, RefuseATableOfTooManyClasses) {
  trainer_spec::JobSpec spec;
  spec.ranks = {.min = 1, .max = 1};
  spec.train.data.synthetic = {.samples = 4000, .shape = {4}, .classes = 1001};
  spec.train.model.mlp = {.hidden = {4}};
  spec.train.batch_size = 16;
  spec.train.steps = 1;
  spec.train.artifacts.confusion = true;
  EXPECT_THAT(PartsOf(spec).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("train.artifacts.confusion: the data has 1001 classes")));
  spec.train.data.synthetic->classes = 1000;
  ASSERT_OK_AND_ASSIGN(const RankParts parts, PartsOf(spec));
  EXPECT_TRUE(parts.recipe.count_confusion);
}

}  // namespace
}  // namespace muster::worker
