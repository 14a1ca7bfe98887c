// What the loader makes of augmentation and mixing: the same global batches whoever reads them.
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "worker/data/augment/augment.h"
#include "worker/data/images/pixels.h"
#include "worker/data/loader.h"

namespace muster::worker {
namespace {

// Every operation; of the policies, one.
AugmentConfig Everything() {
  AugmentConfig config;
  config.crop_padding = 1;
  config.crop_min_area = 0.3;
  config.flip = 0.5;
  config.vertical_flip = 0.5;
  config.rand_augment_ops = 2;
  config.color_jitter = {0.8, 0.4, 0.4, 0.4, 0.1};
  config.grey = 0.2;
  config.blur = 0.5;
  config.erase = 0.5;
  config.erase_fill = EraseFill::kNoise;
  return config;
}

AugmentConfig EverythingAndMixed() {
  AugmentConfig config = Everything();
  config.mixup = 0.4;
  config.cutmix = 1;
  return config;
}

TEST(Loader, AugmentsTrainingBatchesAndLeavesEvaluationAlone) {
  const auto dataset = MakeSynthetic({64, {3, 8, 8}, 4, 1});
  ASSERT_TRUE(dataset.ok());
  AugmentConfig config;
  config.flip = 1;
  const Augmenter augmenter(config, 1);
  const Loader plain(**dataset, Sampler(64, 8, 2));
  const Loader flipped(**dataset, Sampler(64, 8, 2), &augmenter);
  const Batch a = *plain.TrainBatch(3, 0, 2), b = *flipped.TrainBatch(3, 0, 2);
  EXPECT_LT(a.inputs.flip({3}).sub(b.inputs).abs().max().item<float>(), 1e-5);
  EXPECT_TRUE(at::equal(a.targets, b.targets));
  EXPECT_TRUE(at::equal(plain.EvalBatch(Split::kTest, 4, 0, 0, 1)->inputs,
                        flipped.EvalBatch(Split::kTest, 4, 0, 0, 1)->inputs));
}

TEST(Loader, ASampleThatABatchHoldsTwiceIsAugmentedInTwoWays) {
  const auto dataset = MakeSynthetic({4, {3, 8, 8}, 4, 1});
  ASSERT_TRUE(dataset.ok());
  const Augmenter augmenter(Everything(), 1);
  const Loader loader(**dataset, Sampler(4, 8, 2), &augmenter);
  const Batch batch = *loader.TrainBatch(0, 0, 1);
  for (int64_t i = 0; i < 8; ++i) {
    for (int64_t j = 0; j < i; ++j) {
      if (batch.ids[static_cast<size_t>(i)] != batch.ids[static_cast<size_t>(j)]) continue;
      EXPECT_FALSE(at::equal(batch.inputs[i], batch.inputs[j])) << i << " and " << j;
    }
  }
}

// One global batch as its ranks have it, one after the other.
struct GlobalBatch {
  at::Tensor inputs, targets;
  std::vector<int64_t> ids;
};

GlobalBatch AllRanks(const Loader& loader, uint64_t step, uint32_t world) {
  std::vector<at::Tensor> inputs, targets;
  GlobalBatch whole;
  for (uint32_t rank = 0; rank < world; ++rank) {
    const Batch part = *loader.TrainBatch(step, rank, world);
    if (part.count == 0) continue;  // stand-ins
    EXPECT_EQ(part.inputs.size(0), part.count);
    inputs.push_back(part.inputs);
    targets.push_back(part.targets);
    whole.ids.insert(whole.ids.end(), part.ids.begin(), part.ids.end());
  }
  whole.inputs = at::cat(inputs);
  whole.targets = at::cat(targets);
  return whole;
}

void ExpectSameBits(const GlobalBatch& a, const GlobalBatch& b) {
  EXPECT_EQ(a.ids, b.ids);
  EXPECT_TRUE(at::equal(a.inputs, b.inputs));
  EXPECT_TRUE(at::equal(a.targets, b.targets));
}

// Shares of three ranks begin and end within pairs, batches reach over the end of an epoch, and the
// last one is short: after each step the run is killed, and goes on with another number of ranks.
TEST(Loader, AGlobalBatchHasTheSameBitsAtAnyNumberOfRanksAndAfterAnyResume) {
  constexpr uint64_t kSamples = 30;
  const auto dataset = MakeSynthetic({kSamples, {3, 12, 10}, 4, 1});
  ASSERT_TRUE(dataset.ok());
  std::vector<AugmentConfig> configs(4, EverythingAndMixed());
  configs[1].rand_augment_ops = configs[2].rand_augment_ops = 0;
  configs[1].trivial_augment = true;
  configs[2].auto_augment = AutoAugmentPolicy::kCifar10;
  configs[3].mixup = configs[3].cutmix = 0;
  for (const AugmentConfig& config : configs) {
    for (const uint64_t batch_size : {8, 9, 11}) {
      Sampler sampler(kSamples, batch_size, 2);
      sampler.LimitToEpochs(2.5);
      const uint64_t steps = sampler.StepsFor(2.5);
      const Augmenter augmenter(config, 5);
      const Loader loader(**dataset, sampler, &augmenter);
      std::vector<GlobalBatch> whole;
      for (uint64_t step = 0; step < steps; ++step) whole.push_back(AllRanks(loader, step, 1));
      for (const uint32_t world : {1u, 2u, 3u, 5u, 7u}) {
        for (uint64_t begin = 0; begin < steps; ++begin) {
          SCOPED_TRACE(::testing::Message() << world << " ranks from step " << begin << ", batches "
                                            << "of " << batch_size);
          const Augmenter resumed_augmenter(config, 5);
          const Loader resumed(**dataset, sampler, &resumed_augmenter);
          // The step it resumes at, and the one after.
          for (uint64_t step = begin; step < std::min(begin + 2, steps); ++step)
            ExpectSameBits(AllRanks(resumed, step, world), whole[step]);
        }
      }
    }
  }
}

// What a program without torch does: the sample's bytes, what is drawn for its place, its partner.
TEST(Loader, ASampleIsMadeAgainWithoutTheLoader) {
  const auto dataset = MakeSynthetic({30, {3, 12, 10}, 4, 1});
  ASSERT_TRUE(dataset.ok());
  const Augmenter augmenter(EverythingAndMixed(), 5);
  const Sampler sampler(30, 9, 2);
  const Loader loader(**dataset, sampler, &augmenter);
  constexpr size_t kValues = 3 * 12 * 10;
  for (uint64_t step = 0; step < 8; ++step) {
    const Batch batch = *loader.TrainBatch(step, 0, 1);
    const auto input = [&](uint64_t place) {
      std::vector<float> values(kValues);
      const Picture picture = {values.data(), 3, 12, 10};
      const int64_t id = sampler.Ids(step, PlaceRange{place, place + 1})[0];
      std::string storage;
      const StoredSample sample = *(*dataset)->Read(Split::kTrain, id, storage);
      std::memcpy(values.data(), sample.input.data(), sample.input.size());
      InputsToPixels((*dataset)->pixels(), picture);
      augmenter.Change(picture, sampler.PlaceOf(step, place));
      PixelsToInputs((*dataset)->pixels(), picture);
      return values;
    };
    const PairMix mix = augmenter.DrawMix(12, 10, sampler.PlaceOf(step, 0));
    for (uint64_t place = 0; place < 9; ++place) {
      std::vector<float> own = input(place);
      const uint64_t partner = place ^ 1;
      if (partner < 9) {
        std::vector<float> other = input(partner);
        MixPair(mix, {own.data(), 3, 12, 10}, {other.data(), 3, 12, 10});
      }
      const float* made = batch.inputs.const_data_ptr<float>() + place * kValues;
      EXPECT_EQ(std::memcmp(own.data(), made, kValues * sizeof(float)), 0)
          << "step " << step << " place " << place;
    }
  }
}

TEST(Loader, MixedTargetsAreSharesOfBothClassesAndTheLastOfAnOddNumberIsMixedWithNobody) {
  const auto dataset = MakeSynthetic({30, {3, 8, 8}, 4, 1});
  ASSERT_TRUE(dataset.ok());
  AugmentConfig config;
  config.mixup = 1;
  const Augmenter augmenter(config, 3);
  const Sampler sampler(30, 3, 2);
  const Batch plain = *Loader(**dataset, sampler).TrainBatch(0, 0, 1);
  const Batch mixed = *Loader(**dataset, sampler, &augmenter).TrainBatch(0, 0, 1);
  const PairMix mix = augmenter.DrawMix(8, 8, {0, 0});
  at::Tensor wanted = at::zeros({3, 4});
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t partner = i == 2 ? 2 : 1 - i;
    wanted[i][plain.targets[i].item<int64_t>()] += mix.share;
    wanted[i][plain.targets[partner].item<int64_t>()] += mix.rest();
  }
  EXPECT_TRUE(at::equal(mixed.targets, wanted));
  EXPECT_TRUE(at::equal(mixed.inputs[2], plain.inputs[2]));
  const at::Tensor blended = plain.inputs[0].mul(mix.share).add(plain.inputs[1].mul(mix.rest()));
  EXPECT_LT(mixed.inputs[0].sub(blended).abs().max().item<float>(), 1e-6);
}

// Features are mixed as pictures are.
TEST(Loader, MixupBlendsFeatures) {
  const auto dataset = MakeSynthetic({30, {5}, 4, 1});
  ASSERT_TRUE(dataset.ok());
  AugmentConfig config;
  config.mixup = 1;
  const Augmenter augmenter(config, 3);
  const Sampler sampler(30, 4, 2);
  const Batch plain = *Loader(**dataset, sampler).TrainBatch(0, 0, 1);
  const Batch mixed = *Loader(**dataset, sampler, &augmenter).TrainBatch(0, 0, 1);
  const PairMix mix = augmenter.DrawMix(1, 1, {0, 0});
  const at::Tensor blended = plain.inputs[3].mul(mix.share).add(plain.inputs[2].mul(mix.rest()));
  EXPECT_LT(mixed.inputs[3].sub(blended).abs().max().item<float>(), 1e-6);
}

}  // namespace
}  // namespace muster::worker
