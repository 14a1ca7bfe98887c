#include "worker/trainer/data/data_recipe.h"

#include <vector>

#include "worker/train/run/seed_purpose.h"

namespace muster::worker {
namespace {

std::vector<float> Floats(const std::vector<double>& values) {
  return std::vector<float>(values.begin(), values.end());
}

AutoAugmentPolicy PolicyOf(trainer_spec::AutoAugment policy) {
  switch (policy) {
    case trainer_spec::AutoAugment::kImagenet:
      return AutoAugmentPolicy::kImageNet;
    case trainer_spec::AutoAugment::kCifar10:
      return AutoAugmentPolicy::kCifar10;
    case trainer_spec::AutoAugment::kSvhn:
      return AutoAugmentPolicy::kSvhn;
    default:
      return AutoAugmentPolicy::kNone;
  }
}

void FillErased(trainer_spec::EraseFill fill, const PixelScale& pixels, AugmentConfig& config) {
  switch (fill) {
    case trainer_spec::EraseFill::kBlack:
      config.erase_values = {0.0f};
      return;
    case trainer_spec::EraseFill::kMean:
      config.erase_values = pixels.mean;
      return;
    case trainer_spec::EraseFill::kNoise:
      config.erase_fill = EraseFill::kNoise;
      return;
    default:
      return;
  }
}

}  // namespace

PixelScale PixelScaleOf(const trainer_spec::Images& images) {
  return {Floats(images.mean), Floats(images.std)};
}

PictureDecoding DecodingOf(const trainer_spec::Images& images) {
  return {.center_crop = images.center_crop, .upright = images.upright};
}

AugmentConfig AugmentConfigOf(const trainer_spec::Augment& spec, const PixelScale& pixels) {
  AugmentConfig config;
  config.crop_min_area = spec.crop_min_area;
  config.crop_padding = spec.crop_padding;
  config.flip = spec.flip;
  config.vertical_flip = spec.vertical_flip;
  config.rand_augment_ops = spec.rand_augment_operations;
  config.rand_augment_magnitude = spec.rand_augment_magnitude;
  config.trivial_augment = spec.trivial_augment;
  config.auto_augment = PolicyOf(spec.auto_augment);
  const trainer_spec::ColorJitter& jitter = spec.color_jitter;
  config.color_jitter = {jitter.chance, jitter.brightness, jitter.contrast, jitter.saturation,
                         jitter.hue};
  config.grey = spec.grey;
  config.blur = spec.blur;
  config.erase = spec.erase;
  FillErased(spec.erase_fill, pixels, config);
  config.mixup = spec.mixup;
  config.cutmix = spec.cutmix;
  return config;
}

Augmenter AugmenterOf(const trainer_spec::Train& train, const PixelScale& pixels) {
  return Augmenter(AugmentConfigOf(train.augment, pixels),
                   SeedFor(train.seed, SeedPurpose::kAugmentation));
}

Sampler SamplerOf(const trainer_spec::Train& train, uint64_t samples) {
  Sampler sampler(samples, train.batch_size, SeedFor(train.seed, SeedPurpose::kDataOrder));
  if (train.epochs > 0) sampler.LimitToEpochs(train.epochs);
  return sampler;
}

}  // namespace muster::worker
