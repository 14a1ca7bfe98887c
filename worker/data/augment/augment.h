// Augmentation of training samples: what is drawn for a sample, and whom it is mixed with, depends
// on (seed, epoch, position in the epoch) alone, so that any number of ranks, any thread and any
// resume gives the same pictures. A sample that a batch holds twice is changed in two ways.
//
// Used by the loader; needs nothing of torch, so that any program can make a sample again.
// Immutable after its making; any thread may call.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "worker/data/augment/auto_augment.h"
#include "worker/data/augment/pair_mix.h"
#include "worker/data/augment/picture_change.h"
#include "worker/data/base/random_stream.h"

namespace muster::worker {

// Each draws from a stream of its own (RandomStream). Part of what a seed means: never renumbered.
enum class AugmentOp : uint32_t {
  kResizedCrop = 1,
  kPaddedCrop = 2,
  kHorizontalFlip = 3,
  kVerticalFlip = 4,
  kRandAugment = 5,
  kTrivialAugment = 6,
  kAutoAugment = 7,
  kColorJitter = 8,
  kGrey = 9,
  kBlur = 10,
  kErase = 11,
  kEraseNoise = 12,
  kMix = 13
};

// torchvision's: a factor from 1 - so much (0 at least) to 1 + so much each, and of the hue a turn
// from -hue to hue of the colour circle. 0: off.
struct ColorJitterConfig {
  double chance = 1;
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;

  bool on() const {
    return chance > 0 && (brightness > 0 || contrast > 0 || saturation > 0 || hue > 0);
  }
};

enum class EraseFill { kValues, kNoise };

// In the order in which pictures are changed.
struct AugmentConfig {
  double crop_min_area = 0;  // random resized crop of this share of the area at least; 0: off
  int64_t crop_padding = 0;  // random crop after so many black pixels on each side; 0: off
  double flip = 0;           // probability of a horizontal flip
  double vertical_flip = 0;  // probability
  // Policies: at most one of the three.
  int64_t rand_augment_ops = 0;       // of so many operations in a row; 0: off
  double rand_augment_magnitude = 9;  // 0 to 30
  bool trivial_augment = false;
  AutoAugmentPolicy auto_augment = AutoAugmentPolicy::kNone;
  ColorJitterConfig color_jitter = {};
  double grey = 0;   // probability of a picture without colours
  double blur = 0;   // probability of a Gaussian blur of sigma 0.1 to 2 (Chen et al. 2020)
  double erase = 0;  // probability of a random rectangle without content (Zhong et al. 2020)
  EraseFill erase_fill = EraseFill::kValues;
  std::vector<float> erase_values = {0.5f};  // for each channel, or one for all
  // Of batches. Parameters of the Beta distribution; 0: off. With both, each batch draws one.
  double mixup = 0;
  double cutmix = 0;

  bool changes_pictures() const {
    return crop_padding > 0 || crop_min_area > 0 || flip > 0 || vertical_flip > 0 ||
           rand_augment_ops > 0 || trivial_augment || auto_augment != AutoAugmentPolicy::kNone ||
           color_jitter.on() || grey > 0 || blur > 0 || erase > 0;
  }
  bool mixes() const { return mixup > 0 || cutmix > 0; }
  // A picture that is decoded undergoes no other change than these two, which the decoder makes.
  bool only_crops_and_flips() const {
    AugmentConfig others = *this;
    others.crop_min_area = 0;
    others.flip = 0;
    return !others.changes_pictures() && !others.mixes();
  }
};

class Augmenter {
 public:
  // `seed` is that of the augmentation alone.
  Augmenter(AugmentConfig config, uint64_t seed) : config_(std::move(config)), seed_(seed) {}

  const AugmentConfig& config() const { return config_; }

  // All that happens to a picture of this size, whose sample stands there, in order; what is
  // switched on but was not drawn is left out.
  std::vector<PictureChange> Draw(int64_t height, int64_t width, const EpochPlace& place) const;

  // The same without the random resized crop, for who crops while it decodes: of the picture that
  // was resized.
  std::vector<PictureChange> DrawAfterCrop(int64_t height, int64_t width,
                                           const EpochPlace& place) const;

  // Does it, in place, to a picture of values from 0 to 1.
  void Change(Picture picture, const EpochPlace& place) const;

  // The part of a picture of this size that the random resized crop takes. Requires
  // crop_min_area > 0.
  Window ResizedCrop(int64_t height, int64_t width, const EpochPlace& place) const;

  // How the pairs of a global batch are mixed, whose first sample stands there. Requires mixes().
  PairMix DrawMix(int64_t height, int64_t width, const EpochPlace& first) const;

 private:
  using Changes = std::vector<PictureChange>;

  RandomStream StreamOf(AugmentOp op, const EpochPlace& place) const {
    return RandomStream(seed_, static_cast<uint32_t>(op), place);
  }
  bool Happens(double chance, AugmentOp op, const EpochPlace& place) const {
    return chance > 0 && StreamOf(op, place).Chance(chance);
  }
  // Each adds what it draws.
  void DrawPaddedCrop(const EpochPlace& place, Changes& changes) const;
  void DrawPolicy(int64_t height, int64_t width, const EpochPlace& place, Changes& changes) const;
  void DrawColorJitter(const EpochPlace& place, Changes& changes) const;
  void DrawBlur(int64_t height, int64_t width, const EpochPlace& place, Changes& changes) const;
  void DrawErase(int64_t height, int64_t width, const EpochPlace& place, Changes& changes) const;

  const AugmentConfig config_;
  const uint64_t seed_;
};

}  // namespace muster::worker
