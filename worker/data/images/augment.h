// Augmentation of a training batch: what is drawn for a sample, and whom it is mixed with, depends
// on (seed, step, place in the global batch) alone, so that any number of ranks, any thread and any
// resume gives the same pictures. A sample that a batch holds twice is changed in two ways.
//
// Used by the loader. Immutable after its making; any thread may call.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/base/random_stream.h"
#include "worker/data/images/picture_ops.h"

namespace muster::worker {

struct AugmentConfig {
  int64_t crop_padding = 0;      // random crop after so many black pixels on each side; 0: off
  double crop_min_area = 0;      // random resized crop of this share of the area at least; 0: off
  double flip = 0;               // probability of a horizontal flip
  int64_t rand_augment_ops = 0;  // of so many operations in a row (Cubuk et al. 2020); 0: off
  double rand_augment_magnitude = 9;  // 0 to 30
  double erase = 0;  // probability of a random rectangle in grey (Zhong et al. 2020)
  // Parameters of the Beta distribution; 0: off. With both, each batch draws one of them.
  double mixup = 0;   // Zhang et al. 2018
  double cutmix = 0;  // Yun et al. 2019

  bool changes_pictures() const {
    return crop_padding > 0 || crop_min_area > 0 || flip > 0 || rand_augment_ops > 0 || erase > 0;
  }
  bool mixes() const { return mixup > 0 || cutmix > 0; }
};

class Augmenter {
 public:
  // `classes` for soft targets. `seed` is that of the augmentation alone.
  Augmenter(const AugmentConfig& config, int64_t classes, uint64_t seed)
      : config_(config), classes_(classes), seed_(seed) {}

  const AugmentConfig& config() const { return config_; }

  // What is drawn for the picture at this place of the global batch.
  RandomStream StreamOf(uint64_t step, int64_t place) const;

  // Changes a picture, whose values are from 0 to 1, in place.
  void Change(Picture picture, RandomStream& random) const;

  // Mixes the two samples of each pair of places: 0 and 1, 2 and 3, ...; the last of an odd number
  // stays as it is. One draw for the global batch. Requires that the samples begin at an even place
  // of that, and end with a pair or with the batch. Afterwards `targets` are float [n, classes],
  // each row adding to 1.
  void Mix(at::Tensor& inputs, at::Tensor& targets, uint64_t step) const;

 private:
  void RandAugment(Picture picture, RandomStream& random) const;

  const AugmentConfig config_;
  const int64_t classes_;
  const uint64_t seed_;
};

}  // namespace muster::worker
