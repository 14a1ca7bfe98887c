#include "worker/data/images/augment.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linspace.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/data/base/random_stream.h"
#include "worker/data/loader.h"

namespace muster::worker {
namespace {

AugmentConfig Everything() {
  AugmentConfig config;
  config.crop_padding = 1;
  config.crop_min_area = 0.3;
  config.flip = 0.5;
  config.rand_augment_ops = 2;
  config.erase = 0.5;
  return config;
}

at::Tensor Pictures(int64_t count) {
  return at::linspace(0, 1, count * 3 * 8 * 8).view({count, 3, 8, 8});
}

// Changes each picture as the one at its place of the global batch.
void ChangePictures(const Augmenter& augmenter, at::Tensor& pictures,
                    const std::vector<int64_t>& places, uint64_t step) {
  float* values = pictures.mutable_data_ptr<float>();
  for (const int64_t place : places) {
    const Picture picture{values, pictures.size(1), pictures.size(2), pictures.size(3)};
    RandomStream random = augmenter.StreamOf(step, place);
    augmenter.Change(picture, random);
    values += picture.size();
  }
}

TEST(Augmenter, APictureFollowsFromSeedStepAndPlaceAlone) {
  const Augmenter augmenter(Everything(), 10, 7);
  at::Tensor all = Pictures(4), last = Pictures(4).narrow(0, 3, 1).clone();
  ChangePictures(augmenter, all, {10, 11, 12, 13}, 5);
  ChangePictures(augmenter, last, {13}, 5);
  EXPECT_TRUE(at::equal(all.narrow(0, 3, 1), last));
  at::Tensor later = Pictures(4);
  ChangePictures(augmenter, later, {10, 11, 12, 13}, 6);
  EXPECT_FALSE(at::equal(all, later));
  at::Tensor other_seed = Pictures(4);
  ChangePictures(Augmenter(Everything(), 10, 8), other_seed, {10, 11, 12, 13}, 5);
  EXPECT_FALSE(at::equal(all, other_seed));
}

TEST(Augmenter, PixelsStayBetweenBlackAndWhite) {
  AugmentConfig config = Everything();
  config.rand_augment_magnitude = 30;
  const Augmenter augmenter(config, 10, 1);
  for (uint64_t step = 0; step < 50; ++step) {
    at::Tensor pictures = Pictures(4);
    ChangePictures(augmenter, pictures, {0, 1, 2, 3}, step);
    EXPECT_GE(pictures.min().item<float>(), 0.0f);
    EXPECT_LE(pictures.max().item<float>(), 1.0f);
  }
}

TEST(Augmenter, MixupBlendsInputsAndClassesByTheSameShare) {
  AugmentConfig config;
  config.mixup = 1;
  const Augmenter augmenter(config, 4, 3);
  at::Tensor inputs = Pictures(2), targets = at::arange(2, at::kLong);
  augmenter.Mix(inputs, targets, 0);
  const float share = targets[0][0].item<float>();
  EXPECT_GT(share, 0.0f);
  EXPECT_LT(share, 1.0f);
  EXPECT_NEAR(targets[0][1].item<float>(), 1 - share, 1e-6);
  const at::Tensor wanted = Pictures(2).mul(share).add(Pictures(2).flip({0}), 1 - share);
  EXPECT_LT(inputs.sub(wanted).abs().max().item<float>(), 1e-6);
}

TEST(Augmenter, CutmixPastesAsMuchAsTheClassesSay) {
  AugmentConfig config;
  config.cutmix = 1;
  const Augmenter augmenter(config, 2, 3);
  for (uint64_t step = 0; step < 20; ++step) {
    // The first picture is black and of class 0, the second white and of class 1.
    at::Tensor inputs = at::arange(2, at::kFloat).view({2, 1, 1, 1}).repeat({1, 3, 8, 8});
    at::Tensor targets = at::arange(2, at::kLong);
    augmenter.Mix(inputs, targets, step);
    EXPECT_NEAR(inputs[0].mean().item<float>(), targets[0][1].item<float>(), 1e-6);
    EXPECT_NEAR(inputs[1].mean().item<float>(), targets[1][1].item<float>(), 1e-6);
  }
}

TEST(Augmenter, TheLastOfAnOddNumberIsMixedWithNobody) {
  AugmentConfig config;
  config.mixup = 1;
  const Augmenter augmenter(config, 4, 3);
  at::Tensor inputs = Pictures(3), targets = at::arange(3, at::kLong);
  augmenter.Mix(inputs, targets, 0);
  EXPECT_GT(inputs[0].sub(Pictures(3)[0]).abs().max().item<float>(), 1e-3);
  EXPECT_LT(inputs[2].sub(Pictures(3)[2]).abs().max().item<float>(), 1e-6);
  EXPECT_NEAR(targets[2][2].item<float>(), 1, 1e-6);
}

TEST(RandomStream, DrawsFromTheDistributionsItNames) {
  RandomStream random(1);
  double sum = 0, beta = 0, beta_square = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    sum += random.Uniform(2, 4);
    const double b = random.Beta(0.2);
    beta += b;
    beta_square += b * b;
    EXPECT_LT(random.Below(3), 3);
  }
  EXPECT_NEAR(sum / kDraws, 3, 0.02);
  EXPECT_NEAR(beta / kDraws, 0.5, 0.02);
  // Variance of Beta(a, a): 1 / (4 (2 a + 1)).
  EXPECT_NEAR(beta_square / kDraws - 0.25, 1 / (4 * 1.4), 0.01);
}

TEST(Loader, AugmentsTrainingBatchesAndLeavesEvaluationAlone) {
  const auto dataset = MakeSynthetic({64, {3, 8, 8}, 4, 1});
  ASSERT_TRUE(dataset.ok());
  AugmentConfig config;
  config.flip = 1;
  const Augmenter augmenter(config, 4, 1);
  const Loader plain(**dataset, Sampler(64, 8, 2));
  const Loader flipped(**dataset, Sampler(64, 8, 2), &augmenter);
  const Batch a = plain.TrainBatch(3, 0, 2), b = flipped.TrainBatch(3, 0, 2);
  EXPECT_LT(a.inputs.flip({3}).sub(b.inputs).abs().max().item<float>(), 1e-5);
  EXPECT_TRUE(at::equal(a.targets, b.targets));
  EXPECT_TRUE(at::equal(plain.EvalBatch(Split::kTest, 4, 0, 0, 1).inputs,
                        flipped.EvalBatch(Split::kTest, 4, 0, 0, 1).inputs));
}

TEST(Loader, ASampleThatABatchHoldsTwiceIsAugmentedInTwoWays) {
  const auto dataset = MakeSynthetic({4, {3, 8, 8}, 4, 1});
  ASSERT_TRUE(dataset.ok());
  const Augmenter augmenter(Everything(), 4, 1);
  const Loader loader(**dataset, Sampler(4, 8, 2), &augmenter);
  const Batch batch = loader.TrainBatch(0, 0, 1);
  for (int64_t i = 0; i < 8; ++i) {
    for (int64_t j = 0; j < i; ++j) {
      if (batch.ids[static_cast<size_t>(i)] != batch.ids[static_cast<size_t>(j)]) continue;
      EXPECT_FALSE(at::equal(batch.inputs[i], batch.inputs[j])) << i << " and " << j;
    }
  }
}

// Shares of three ranks begin and end within pairs.
TEST(Loader, AMixedBatchIsTheSameAtAnyNumberOfRanks) {
  const auto dataset = MakeSynthetic({64, {3, 8, 8}, 4, 1});
  ASSERT_TRUE(dataset.ok());
  AugmentConfig config;
  config.flip = 0.5;
  config.mixup = 1;
  config.cutmix = 1;
  const Augmenter augmenter(config, 4, 1);
  for (const uint64_t batch_size : {8, 9, 10}) {
    const Loader loader(**dataset, Sampler(64, batch_size, 2), &augmenter);
    for (uint64_t step = 0; step < 6; ++step) {
      const Batch whole = loader.TrainBatch(step, 0, 1);
      for (const uint32_t world : {2u, 3u}) {
        std::vector<at::Tensor> inputs, targets;
        std::vector<int64_t> ids;
        for (uint32_t rank = 0; rank < world; ++rank) {
          Batch part = loader.TrainBatch(step, rank, world);
          EXPECT_EQ(part.inputs.size(0), part.count);
          ids.insert(ids.end(), part.ids.begin(), part.ids.end());
          inputs.push_back(std::move(part.inputs));
          targets.push_back(std::move(part.targets));
        }
        EXPECT_EQ(ids, whole.ids);
        EXPECT_TRUE(at::cat(inputs).allclose(whole.inputs, 0, 1e-5)) << world << " at " << step;
        EXPECT_TRUE(at::cat(targets).allclose(whole.targets, 0, 1e-6)) << world << " at " << step;
      }
    }
  }
}

}  // namespace
}  // namespace muster::worker
