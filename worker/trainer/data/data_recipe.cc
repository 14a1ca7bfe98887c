#include "worker/trainer/data/data_recipe.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "common/base/status_macros.h"
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

// Of Data or of a source of a mixture; null: it has none.
template <typename Source>
auto PathIn(Source& source) -> decltype(&source.images->path) {
  if (source.digits.has_value()) return &source.digits->path;
  if (source.cifar_bin.has_value()) return &source.cifar_bin->path;
  if (source.numpy.has_value()) return &source.numpy->path;
  if (source.text.has_value()) return &source.text->path;
  if (source.tokens.has_value()) return &source.tokens->path;
  if (source.images.has_value()) return &source.images->path;
  return source.csv.has_value() ? &source.csv->path : nullptr;
}

trainer_spec::Data AsData(const trainer_spec::MixtureSource& source) {
  trainer_spec::Data data;
  data.synthetic = source.synthetic;
  data.digits = source.digits;
  data.cifar_bin = source.cifar_bin;
  data.numpy = source.numpy;
  data.text = source.text;
  data.tokens = source.tokens;
  data.images = source.images;
  data.csv = source.csv;
  return data;
}

// Empty: the sources are as one.
std::vector<MixturePhase> PhasesOf(const trainer_spec::Mixture& mixture, uint64_t batch_size) {
  MixturePhase first;
  for (const trainer_spec::MixtureSource& source : mixture.sources)
    first.weights.push_back(source.weight);
  // A weight that is not given is 0, and a mixture in which all are has none.
  if (std::all_of(first.weights.begin(), first.weights.end(), [](double w) { return w == 0; }))
    return {};
  std::vector<MixturePhase> phases = {first};
  for (const trainer_spec::MixturePhase& phase : mixture.phases)
    phases.push_back({phase.from_step * batch_size, phase.weights});
  return phases;
}

}  // namespace

std::vector<trainer_spec::Data> SourcesOf(const trainer_spec::Data& data) {
  if (!data.mixture.has_value()) return {data};
  std::vector<trainer_spec::Data> sources;
  for (const trainer_spec::MixtureSource& source : data.mixture->sources)
    sources.push_back(AsData(source));
  return sources;
}

absl::Status ForEachPath(trainer_spec::Data& data,
                         const std::function<absl::Status(std::string& path)>& visit) {
  const auto visit_in = [&visit](auto& source) {
    std::string* const path = PathIn(source);
    return path == nullptr ? absl::OkStatus() : visit(*path);
  };
  if (!data.mixture.has_value()) return visit_in(data);
  for (trainer_spec::MixtureSource& source : data.mixture->sources)
    MUSTER_RETURN_IF_ERROR(visit_in(source));
  return absl::OkStatus();
}

std::string PathOf(const trainer_spec::Data& source) {
  const std::string* const path = PathIn(source);
  return path == nullptr ? "" : *path;
}

bool HasTokens(const trainer_spec::Data& data) {
  const std::vector<trainer_spec::Data> sources = SourcesOf(data);
  return std::any_of(sources.begin(), sources.end(), [](const trainer_spec::Data& source) {
    return source.text.has_value() || source.tokens.has_value();
  });
}

uint64_t BrokenLimitOf(const trainer_spec::Data& data) {
  uint64_t limit = 0;
  for (const trainer_spec::Data& source : SourcesOf(data))
    if (source.images.has_value()) limit += source.images->broken_samples;
  return limit;
}

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

Sampler SamplerOf(const trainer_spec::Train& train, const std::vector<uint64_t>& source_sizes) {
  const uint64_t samples = std::accumulate(source_sizes.begin(), source_sizes.end(), uint64_t{0});
  SampleOrder order;
  order.window = train.data.shuffle_window;
  order.source_sizes = source_sizes;
  if (train.data.mixture.has_value())
    order.phases = PhasesOf(*train.data.mixture, train.batch_size);
  Sampler sampler(samples, train.batch_size, SeedFor(train.seed, SeedPurpose::kDataOrder), order);
  if (train.epochs > 0) sampler.LimitToEpochs(train.epochs);
  return sampler;
}

}  // namespace muster::worker
