// What a job file says of its data, as the parts of the data pipeline take it: all that a program
// needs to know which sample a step has and what augmentation makes of it.
//
// Used by the trainer and by muster-data. Pure; needs nothing of torch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainer_spec/job_spec.h"
#include "worker/data/augment/augment.h"
#include "worker/data/base/pixel_scale.h"
#include "worker/data/images/compressed_picture.h"
#include "worker/data/order/sampler.h"

namespace muster::worker {

// The sources that are mixed, each as data of its own; else the data themselves.
std::vector<trainer_spec::Data> SourcesOf(const trainer_spec::Data& data);

// Calls it with each path of the sources, to change it; ends with the first error.
absl::Status ForEachPath(trainer_spec::Data& data,
                         const std::function<absl::Status(std::string& path)>& visit);

// Of data that are not mixed; empty where they are not read from files.
std::string PathOf(const trainer_spec::Data& source);

// Whether samples are rows of tokens: all sources are, or none.
bool HasTokens(const trainer_spec::Data& data);

// So many pictures of all sources together may be broken.
uint64_t BrokenLimitOf(const trainer_spec::Data& data);

PixelScale PixelScaleOf(const trainer_spec::Images& images);
PictureDecoding DecodingOf(const trainer_spec::Images& images);

AugmentConfig AugmentConfigOf(const trainer_spec::Augment& augment, const PixelScale& pixels);
Augmenter AugmenterOf(const trainer_spec::Train& train, const PixelScale& pixels);

// Of a training set whose sources have so many samples, each at least one.
Sampler SamplerOf(const trainer_spec::Train& train, const std::vector<uint64_t>& source_sizes);

}  // namespace muster::worker
