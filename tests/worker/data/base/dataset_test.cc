#include "worker/data/base/dataset.h"

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/rng.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/data/loader.h"

namespace muster::worker {
namespace {

using ::absl::StatusCode;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kRows = 1797;

int PixelOf(int row, int pixel) { return (row * 7 + pixel * 3) % 17; }

// A file of the digits' form: pixel values and labels follow from the place.
std::vector<std::string> Lines() {
  std::vector<std::string> lines;
  for (int row = 0; row < kRows; ++row) {
    std::vector<int> values;
    for (int pixel = 0; pixel < 64; ++pixel) values.push_back(PixelOf(row, pixel));
    values.push_back(row % 10);
    lines.push_back(absl::StrJoin(values, ","));
  }
  return lines;
}

class DigitsTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<InMemoryDataset>> Read(const std::vector<std::string>& lines,
                                                        int64_t image_size = 16) {
    EXPECT_OK(WriteFileAtomically(PosixFileSystem(), dir_ / "digits.csv",
                                  absl::StrJoin(lines, "\n") + "\n"));
    return ReadDigits(PosixFileSystem(), {dir_.path(), image_size});
  }

  TempDir dir_;
};

TEST_F(DigitsTest, SplitsCoverAllRowsInOrder) {
  ASSERT_OK_AND_ASSIGN(const auto digits, Read(Lines(), 8));
  // Counted with an independent SplitMix64.
  EXPECT_EQ(digits->size(Split::kTrain), 1265);
  EXPECT_EQ(digits->size(Split::kValidation), 180);
  EXPECT_EQ(digits->size(Split::kTest), 352);
  EXPECT_EQ(digits->classes(), 10);
  EXPECT_THAT(digits->class_names(), ElementsAre("0", "1", "2", "3", "4", "5", "6", "7", "8", "9"));
  EXPECT_EQ(digits->shape(), (std::vector<int64_t>{1, 8, 8}));

  std::array<int64_t, 3> next = {0, 0, 0};
  for (int row = 0; row < kRows; ++row) {
    const uint64_t place = SplitMix64(static_cast<uint64_t>(row)) % 10;
    const size_t split = place < 7 ? 0 : place == 7 ? 1 : 2;
    const Dataset::Part& part = digits->part(static_cast<Split>(split));
    const int64_t at = next[split]++;
    ASSERT_EQ(part.targets[at].item<int64_t>(), row % 10);
    const float* pixels = part.inputs[at].const_data_ptr<float>();
    for (int pixel = 0; pixel < 64; ++pixel) {
      ASSERT_EQ(pixels[pixel], (static_cast<float>(PixelOf(row, pixel)) / 16.0f - 0.5f) / 0.5f);
    }
  }
}

TEST_F(DigitsTest, EnlargingRepeatsPixels) {
  ASSERT_OK_AND_ASSIGN(const auto small, Read(Lines(), 8));
  ASSERT_OK_AND_ASSIGN(const auto large, Read(Lines(), 24));
  EXPECT_EQ(large->shape(), (std::vector<int64_t>{1, 24, 24}));
  const at::Tensor want =
      small->part(Split::kTest).inputs.repeat_interleave(3, 2).repeat_interleave(3, 3);
  EXPECT_TRUE(at::equal(large->part(Split::kTest).inputs, want));
  EXPECT_NE(large->fingerprint(), small->fingerprint());
}

TEST_F(DigitsTest, AMissingFileNamesTheRemedy) {
  EXPECT_THAT(ReadDigits(PosixFileSystem(), {dir_ / "none", 16}),
              StatusIs(StatusCode::kNotFound, AllOf(HasSubstr(dir_ / "none/digits.csv"),
                                                    HasSubstr("scripts/fetch-digits"))));
}

TEST_F(DigitsTest, ABadFieldIsNamedByFileLineAndColumn) {
  for (const char* field : {"17", "-1", "x", "", "1.5", "99999999999"}) {
    std::vector<std::string> lines = Lines();
    lines[4] = absl::StrCat(field, lines[4].substr(lines[4].find(',')));
    EXPECT_THAT(Read(lines), StatusIs(StatusCode::kInvalidArgument,
                                      AllOf(HasSubstr(dir_ / "digits.csv:5: column 1"),
                                            HasSubstr("0 to 16"), HasSubstr("fetch-digits"))))
        << field;
  }
  std::vector<std::string> lines = Lines();
  lines[0] = lines[0].substr(0, lines[0].rfind(',')) + ",10";
  EXPECT_THAT(Read(lines), StatusIs(StatusCode::kInvalidArgument,
                                    AllOf(HasSubstr(":1: column 65"), HasSubstr("0 to 9"))));
}

TEST_F(DigitsTest, WrongCountsOfColumnsAndLinesAreNamed) {
  std::vector<std::string> lines = Lines();
  lines[1796] = "1,2,3";
  EXPECT_THAT(Read(lines), StatusIs(StatusCode::kInvalidArgument,
                                    HasSubstr("digits.csv:1797: 3 columns, want 65")));
  lines = Lines();
  lines[0] += ",0";
  EXPECT_THAT(Read(lines), StatusIs(StatusCode::kInvalidArgument, HasSubstr("more than 65")));
  lines = Lines();
  lines.pop_back();
  EXPECT_THAT(Read(lines),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("1796 lines, want 1797")));
  EXPECT_THAT(Read({}), StatusIs(StatusCode::kInvalidArgument));
}

TEST_F(DigitsTest, AFileFarTooLargeIsNotRead) {
  EXPECT_THAT(Read({std::string(5 << 20, '0')}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("more than the")));
}

TEST_F(DigitsTest, AnImpossibleImageSizeIsRefused) {
  for (const int64_t size : {0, -8, 7, 12, 40}) {
    EXPECT_THAT(Read(Lines(), size),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("image_size")));
  }
}

TEST(SyntheticTest, IsTheSameForTheSameSeedAndWellSpread) {
  const SyntheticConfig config{1000, {3, 4, 5}, 10, 7};
  ASSERT_OK_AND_ASSIGN(const auto a, MakeSynthetic(config));
  ASSERT_OK_AND_ASSIGN(const auto b, MakeSynthetic(config));
  EXPECT_EQ(a->size(Split::kTrain), 1000);
  EXPECT_EQ(a->size(Split::kValidation), 100);
  EXPECT_EQ(a->size(Split::kTest), 100);
  EXPECT_EQ(a->shape(), config.shape);
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    EXPECT_TRUE(at::equal(a->part(split).inputs, b->part(split).inputs));
    EXPECT_TRUE(at::equal(a->part(split).targets, b->part(split).targets));
  }
  EXPECT_NEAR(at::mean(a->part(Split::kTrain).inputs).item<float>(), 0, 0.02);
  EXPECT_NEAR(at::var(a->part(Split::kTrain).inputs).item<float>(), 1, 0.02);
  EXPECT_EQ(a->part(Split::kTrain).targets.min().item<int64_t>(), 0);
  EXPECT_EQ(a->part(Split::kTrain).targets.max().item<int64_t>(), 9);
  EXPECT_FALSE(at::equal(a->part(Split::kValidation).inputs, a->part(Split::kTest).inputs));
  ASSERT_OK_AND_ASSIGN(const auto other, MakeSynthetic({1000, {3, 4, 5}, 10, 8}));
  EXPECT_FALSE(at::equal(a->part(Split::kTrain).inputs, other->part(Split::kTrain).inputs));
}

TEST(SyntheticTest, ImpossibleSizesAreRefused) {
  for (const SyntheticConfig& config :
       {SyntheticConfig{0, {3}, 10, 0}, SyntheticConfig{10, {}, 10, 0},
        SyntheticConfig{10, {3, 0}, 10, 0}, SyntheticConfig{10, {3}, 0, 0},
        SyntheticConfig{INT64_MAX, {3}, 2, 0}, SyntheticConfig{1, {INT64_MAX, INT64_MAX}, 2, 0}}) {
    EXPECT_THAT(MakeSynthetic(config), StatusIs(StatusCode::kInvalidArgument));
  }
}

class LoaderTest : public ::testing::Test {
 protected:
  // Sample i is [i, i] with target i.
  static std::unique_ptr<Dataset> Counting(int64_t samples) {
    std::array<Dataset::Part, 3> parts;
    for (Dataset::Part& part : parts) {
      part.targets = at::arange(samples, at::kLong);
      part.inputs = part.targets.to(at::kFloat).unsqueeze(1).repeat({1, 2});
    }
    return std::make_unique<InMemoryDataset>(std::move(parts), samples, "counting");
  }
};

TEST_F(LoaderTest, ABatchHoldsTheSamplersSamplesWithTheirTargets) {
  const auto dataset = Counting(50);
  const Sampler sampler(50, 16, 3);
  const Loader loader(*dataset, sampler);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    const Batch batch = *loader.TrainBatch(7, rank, 3);
    const std::vector<int64_t> ids = sampler.Ids(7, rank, 3);
    ASSERT_EQ(batch.count, static_cast<int64_t>(ids.size()));
    EXPECT_EQ(batch.global_count, 16);
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(batch.targets[static_cast<int64_t>(i)].item<int64_t>(), ids[i]);
      EXPECT_EQ(batch.inputs[static_cast<int64_t>(i)][1].item<float>(), static_cast<float>(ids[i]));
    }
  }
}

TEST_F(LoaderTest, ARankWithoutSamplesGetsStandInsThatDoNotCount) {
  const auto dataset = Counting(33);
  Sampler sampler(33, 32, 0);
  sampler.LimitToEpochs(1);
  const Batch batch = *Loader(*dataset, sampler).TrainBatch(1, 0, 2);
  EXPECT_EQ(batch.count, 0);
  EXPECT_EQ(batch.global_count, 1);
  EXPECT_EQ(batch.inputs.size(0), 2);
  EXPECT_EQ(batch.targets.size(0), 2);
}

TEST_F(LoaderTest, EvaluationTakesEverySampleOnceOverAllRanks) {
  const auto dataset = Counting(23);
  const Loader loader(*dataset, Sampler(23, 4, 0));
  for (const uint32_t world : {1u, 2u, 3u, 30u}) {
    std::vector<int64_t> seen;
    for (uint32_t rank = 0; rank < world; ++rank) {
      for (int64_t i = 0; i < loader.EvalBatches(Split::kTest, 4, rank, world); ++i) {
        const Batch batch = *loader.EvalBatch(Split::kTest, 4, i, rank, world);
        ASSERT_LE(batch.count, 4);
        for (int64_t j = 0; j < batch.count; ++j) seen.push_back(batch.targets[j].item<int64_t>());
      }
    }
    ASSERT_EQ(seen.size(), 23u) << world;
    for (int64_t i = 0; i < 23; ++i) EXPECT_EQ(seen[static_cast<size_t>(i)], i);
  }
}

}  // namespace
}  // namespace muster::worker
