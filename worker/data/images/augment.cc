#include "worker/data/images/augment.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "common/base/rng.h"
#include "worker/data/images/rand_augment.h"

namespace muster::worker {
namespace {

// Purposes of DeriveSeed: part of the result, never changed.
constexpr uint64_t kPicturePurpose = 0x70696374;  // "pict"
constexpr uint64_t kMixPurpose = 0x6d697875;      // "mixu"

constexpr float kErasedGrey = 0.5f;

// A window of `area` pixels with a height-to-width ratio of `ratio`, anywhere inside. False when it
// does not fit.
bool DrawWindow(const Picture& picture, double area, double ratio, RandomStream& random,
                Window& window) {
  const int64_t height = std::lround(std::sqrt(area * ratio));
  const int64_t width = std::lround(std::sqrt(area / ratio));
  if (height < 1 || width < 1 || height > picture.height || width > picture.width) return false;
  window = {random.Below(picture.height - height + 1), random.Below(picture.width - width + 1),
            height, width};
  return true;
}

// Ten tries, as torchvision's: then the whole picture.
Window DrawResizedCrop(const Picture& picture, double min_area, RandomStream& random) {
  constexpr int kTries = 10;
  const double log_ratio = std::log(4.0 / 3.0);
  Window window;
  for (int i = 0; i < kTries; ++i) {
    const double area = random.Uniform(min_area, 1.0) * static_cast<double>(picture.plane());
    const double ratio = std::exp(random.Uniform(-log_ratio, log_ratio));
    if (DrawWindow(picture, area, ratio, random, window)) return window;
  }
  return {0, 0, picture.height, picture.width};
}

// 2% to a third of the picture, as torchvision's RandomErasing.
void EraseSomewhere(Picture picture, RandomStream& random) {
  constexpr int kTries = 10;
  const double log_ratio = std::log(1 / 0.3);
  for (int i = 0; i < kTries; ++i) {
    const double area = random.Uniform(0.02, 0.33) * static_cast<double>(picture.plane());
    const double ratio = std::exp(random.Uniform(-log_ratio, log_ratio));
    Window window;
    if (!DrawWindow(picture, area, ratio, random, window)) continue;
    Erase(picture, window, kErasedGrey);
    return;
  }
}

}  // namespace

RandomStream Augmenter::StreamOf(uint64_t step, int64_t place) const {
  const uint64_t step_seed = DeriveSeed(seed_, kPicturePurpose, step);
  return RandomStream(DeriveSeed(step_seed, kPicturePurpose, static_cast<uint64_t>(place)));
}

void Augmenter::Change(Picture picture, RandomStream& random) const {
  if (config_.crop_min_area > 0)
    CropAndResize(picture, DrawResizedCrop(picture, config_.crop_min_area, random));
  if (config_.crop_padding > 0) {
    const int64_t places = 2 * config_.crop_padding + 1;
    const int64_t x = random.Below(places), y = random.Below(places);
    Translate(picture, x - config_.crop_padding, y - config_.crop_padding);
  }
  if (config_.flip > 0 && random.Chance(config_.flip)) FlipHorizontally(picture);
  for (int64_t i = 0; i < config_.rand_augment_ops; ++i) RandAugment(picture, random);
  if (config_.erase > 0 && random.Chance(config_.erase)) EraseSomewhere(picture, random);
}

void Augmenter::RandAugment(Picture picture, RandomStream& random) const {
  const double sign = random.Chance(0.5) ? -1 : 1;
  const auto op = static_cast<RandAugmentOp>(random.Below(kRandAugmentOps));
  ApplyRandAugmentOp(picture, op, config_.rand_augment_magnitude, sign);
}

void Augmenter::Mix(at::Tensor& inputs, at::Tensor& targets, uint64_t step) const {
  RandomStream random(DeriveSeed(seed_, kMixPurpose, step));
  const bool cut = config_.cutmix > 0 && (config_.mixup <= 0 || random.Chance(0.5));
  double share = random.Beta(cut ? config_.cutmix : config_.mixup);  // of the sample's own
  const int64_t samples = inputs.size(0);
  const at::Tensor partners = at::arange(samples, at::kLong).bitwise_xor(1).clamp_max(samples - 1);
  const at::Tensor others = inputs.index_select(0, partners);
  if (cut) {
    const int64_t rows = inputs.size(2), columns = inputs.size(3);
    const double side = std::sqrt(1 - share);
    const int64_t height = static_cast<int64_t>(side * static_cast<double>(rows));
    const int64_t width = static_cast<int64_t>(side * static_cast<double>(columns));
    const int64_t middle_y = random.Below(rows), middle_x = random.Below(columns);
    const int64_t top = std::max<int64_t>(0, middle_y - height / 2);
    const int64_t left = std::max<int64_t>(0, middle_x - width / 2);
    const int64_t bottom = std::min(rows, middle_y + (height + 1) / 2);
    const int64_t right = std::min(columns, middle_x + (width + 1) / 2);
    inputs.slice(2, top, bottom)
        .slice(3, left, right)
        .copy_(others.slice(2, top, bottom).slice(3, left, right));
    share = 1 - static_cast<double>((bottom - top) * (right - left)) /
                    static_cast<double>(rows * columns);
  } else {
    inputs.mul_(share).add_(others, 1 - share);
  }
  at::Tensor soft = at::zeros({targets.size(0), classes_});
  soft.scatter_(1, targets.unsqueeze(1), 1.0);
  targets = soft.mul(share).add(soft.index_select(0, partners), 1 - share);
}

}  // namespace muster::worker
