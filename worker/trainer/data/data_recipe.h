// What a job file says of its data, as the parts of the data pipeline take it: all that a program
// needs to know which sample a step has and what augmentation makes of it.
//
// Used by the trainer and by muster-data. Pure; needs nothing of torch.
#pragma once

#include <cstdint>

#include "trainer_spec/job_spec.h"
#include "worker/data/augment/augment.h"
#include "worker/data/base/pixel_scale.h"
#include "worker/data/images/compressed_picture.h"
#include "worker/data/sampler.h"

namespace muster::worker {

PixelScale PixelScaleOf(const trainer_spec::Images& images);
PictureDecoding DecodingOf(const trainer_spec::Images& images);

AugmentConfig AugmentConfigOf(const trainer_spec::Augment& augment, const PixelScale& pixels);
Augmenter AugmenterOf(const trainer_spec::Train& train, const PixelScale& pixels);

// Of a training set of so many samples, at least one.
Sampler SamplerOf(const trainer_spec::Train& train, uint64_t samples);

}  // namespace muster::worker
