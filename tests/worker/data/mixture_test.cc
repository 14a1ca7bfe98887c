#include "worker/data/mixture.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/data/loader.h"
#include "worker/data/subset.h"
#include "worker/data/text/token_rows.h"

namespace muster::worker {
namespace {

using ::absl::StatusCode;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::unique_ptr<Dataset> Synthetic(int64_t samples, uint64_t seed, std::vector<int64_t> shape = {5},
                                   int64_t classes = 3) {
  auto made = MakeSynthetic({samples, std::move(shape), classes, seed});
  EXPECT_OK(made);
  return *std::move(made);
}

std::unique_ptr<Dataset> MixtureOf(std::unique_ptr<Dataset> a, std::unique_ptr<Dataset> b) {
  std::vector<Mixture::Source> sources;
  sources.push_back({"first", std::move(a)});
  sources.push_back({"second", std::move(b)});
  auto mixture = Mixture::Create(std::move(sources));
  EXPECT_OK(mixture);
  return *std::move(mixture);
}

TEST(MixtureTest, HasTheSamplesOfEachSourceOneAfterTheOther) {
  const auto first = Synthetic(50, 1), second = Synthetic(20, 2);
  const auto mixture = MixtureOf(Synthetic(50, 1), Synthetic(20, 2));
  EXPECT_EQ(mixture->size(Split::kTrain), 70);
  EXPECT_EQ(mixture->size(Split::kValidation), 7);
  EXPECT_EQ(mixture->source_sizes(), (std::vector<uint64_t>{50, 20}));
  const Dataset::Part got = mixture->Range(Split::kTrain, 0, 70);
  EXPECT_TRUE(at::equal(got.inputs, at::cat({first->Range(Split::kTrain, 0, 50).inputs,
                                             second->Range(Split::kTrain, 0, 20).inputs})));
  EXPECT_TRUE(at::equal(got.targets, at::cat({first->Range(Split::kTrain, 0, 50).targets,
                                              second->Range(Split::kTrain, 0, 20).targets})));
  EXPECT_THAT(mixture->NameOf(Split::kTrain, 55), HasSubstr("second: "));
  EXPECT_NE(mixture->fingerprint(), MixtureOf(Synthetic(50, 1), Synthetic(20, 3))->fingerprint());
  EXPECT_EQ(mixture->bytes(), first->bytes() + second->bytes());
}

TEST(MixtureTest, SourcesThatDifferAreRefusedByName) {
  const auto mix = [](std::unique_ptr<Dataset> other) {
    std::vector<Mixture::Source> sources;
    sources.push_back({"first", Synthetic(50, 1)});
    sources.push_back({"other", std::move(other)});
    return Mixture::Create(std::move(sources));
  };
  EXPECT_THAT(mix(Synthetic(50, 1, {6})),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("first and other"), HasSubstr("samples of 5 and of 6"))));
  EXPECT_THAT(mix(Synthetic(50, 1, {5}, 4)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("3 classes and 4")));
}

TEST(MixtureTest, AValidationSetThatIsCutLeavesTheSourcesAsTheyAre) {
  const auto cut = KeepSubset(MixtureOf(Synthetic(50, 1), Synthetic(20, 2)), Split::kValidation, 3);
  EXPECT_EQ(cut->size(Split::kValidation), 3);
  EXPECT_EQ(cut->source_sizes(), (std::vector<uint64_t>{50, 20}));
  EXPECT_EQ(cut->IdInStorage(60), 60);
}

TEST(MixtureTest, BatchesHaveTheWeightsAndAreTheSameForAnyRanks) {
  const auto mixture = MixtureOf(Synthetic(500, 1), Synthetic(200, 2));
  const Sampler sampler(700, 64, 3,
                        {.source_sizes = mixture->source_sizes(), .phases = {{0, {1, 3}}}});
  const Loader loader(*mixture, sampler);
  int64_t of_first = 0;
  constexpr int64_t kSteps = MixtureOrder::kBlock / 64;
  for (uint64_t step = 0; step < kSteps; ++step) {
    const auto alone = loader.TrainBatch(step, 0, 1);
    ASSERT_OK(alone);
    for (const int64_t id : alone->ids) of_first += id < 500;
    std::vector<at::Tensor> parts;
    for (uint32_t rank = 0; rank < 3; ++rank) {
      const auto part = loader.TrainBatch(step, rank, 3);
      ASSERT_OK(part);
      parts.push_back(part->inputs);
    }
    ASSERT_TRUE(at::equal(at::cat(parts), alone->inputs)) << step;
  }
  EXPECT_EQ(of_first, static_cast<int64_t>(MixtureOrder::kBlock / 4));
}

// Tokens of text are held as bytes and widened, those of shards are read as they are.
TEST(MixtureTest, EachSourceDecodesItsOwnSamples) {
  TempDir dir;
  const auto text = [&](const std::string& name, char from) {
    std::string bytes;
    for (int i = 0; i < 3000; ++i) bytes.push_back(static_cast<char>(from + i % 23));
    std::ofstream(dir / name) << bytes;
    auto rows = ReadText(PosixFileSystem(), {dir / name, 16});
    EXPECT_OK(rows);
    return *std::move(rows);
  };
  const auto lower = text("lower", 'a'), upper = text("upper", 'A');
  const auto mixture = MixtureOf(text("lower", 'a'), text("upper", 'A'));
  const int64_t rows = lower->size(Split::kTrain);
  const Dataset::Part got = mixture->Range(Split::kTrain, 0, 2 * rows);
  EXPECT_TRUE(
      at::equal(got.inputs.narrow(0, 0, rows), lower->Range(Split::kTrain, 0, rows).inputs));
  EXPECT_TRUE(
      at::equal(got.targets.narrow(0, rows, rows), upper->Range(Split::kTrain, 0, rows).targets));
}

// Remembers which samples it was told of.
class ToldDataset final : public Dataset {
 public:
  explicit ToldDataset(int64_t samples)
      : Dataset({1}, {at::kFloat, at::kLong, {}}, 2, "told"), samples_(samples) {}
  int64_t size(Split) const override { return samples_; }
  absl::StatusOr<StoredSample> Read(Split, int64_t, std::string& storage) const override {
    storage.assign(sizeof(float) + sizeof(int64_t), '\0');
    const absl::string_view all = storage;
    return StoredSample{all.substr(0, sizeof(float)), all.substr(sizeof(float))};
  }
  bool in_files() const override { return true; }
  void WillRead(Split, const std::vector<int64_t>& ids) const override {
    for (const int64_t id : ids) told_.insert(id);
  }
  int64_t IdInStorage(int64_t place) const override { return samples_ - 1 - place; }
  int64_t bytes() const override { return 0; }

  mutable std::set<int64_t> told_;

 private:
  const int64_t samples_;
};

TEST(MixtureTest, WhatAWindowLaterNeedsIsFetchedBeforeItBegins) {
  const ToldDataset data(4096);
  const Sampler sampler(4096, 32, 3, {.window = 512});
  const Loader loader(data, sampler);
  for (uint64_t step = 0; step < 100; ++step) {
    for (const int64_t place : sampler.Ids(step, 1, 2)) {
      if (step < sampler.steps_in_window()) continue;
      EXPECT_TRUE(data.told_.contains(4095 - place)) << step;
    }
    const auto batch = loader.TrainBatch(step, 1, 2);
    ASSERT_OK(batch);
    EXPECT_EQ(batch->ids.front(), 4095 - sampler.Ids(step, 1, 2).front());
  }
}

}  // namespace
}  // namespace muster::worker
