#include "worker/data_tool/show/recreate_sample.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/images/pixels.h"
#include "worker/trainer/data/data_recipe.h"

namespace muster::worker {
namespace {

uint64_t UsedSamples(const SampleIndex& train, const trainer_spec::Train& spec) {
  return spec.data.subset > 0 ? std::min<uint64_t>(spec.data.subset, train.size()) : train.size();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SampleRecreation>> SampleRecreation::Create(
    FileSystem& data, const SampleIndex& train, const trainer_spec::Train& spec) {
  if (!spec.data.images.has_value()) {
    return absl::UnimplementedError(
        "the job's data are not train.data.images: other data have no files with a sample each");
  }
  if (train.size() == 0) return absl::InvalidArgumentError("the training set has no pictures");
  if (spec.batch_size == 0) return absl::InvalidArgumentError("train.batch_size is 0");
  return std::unique_ptr<SampleRecreation>(new SampleRecreation(data, train, spec));
}

SampleRecreation::SampleRecreation(FileSystem& data, const SampleIndex& train,
                                   const trainer_spec::Train& spec)
    : data_(data),
      train_(train),
      samples_(UsedSamples(train, spec)),
      size_(spec.data.images->size),
      channels_(spec.data.images->channels),
      broken_limit_(spec.data.images->broken_samples),
      pixels_(PixelScaleOf(*spec.data.images)),
      decoding_(DecodingOf(*spec.data.images)),
      augmenter_(AugmenterOf(spec, pixels_)),
      sampler_(SamplerOf(spec, samples_)) {}

absl::StatusOr<RecreatedSample> SampleRecreation::Recreate(uint64_t step, uint64_t place) const {
  const uint64_t batch = sampler_.GlobalBatch(step);
  if (batch == 0)
    return absl::OutOfRangeError(absl::StrCat("step ", step, " is behind the end of the run"));
  if (place >= batch) {
    return absl::OutOfRangeError(
        absl::StrCat("step ", step, " has ", batch, " samples: want one from 0 to ", batch - 1));
  }
  RecreatedSample sample;
  MUSTER_ASSIGN_OR_RETURN(sample.own, Make(step, place));
  sample.inputs = sample.own.inputs;
  if (!augmenter_.config().mixes()) return sample;
  sample.mix = augmenter_.DrawMix(size_, size_, sampler_.PlaceOf(step, 0));
  const uint64_t partner = place ^ 1;
  if (partner >= batch) return sample;  // the last of an odd number
  MUSTER_ASSIGN_OR_RETURN(sample.partner, Make(step, partner));
  // Both at once, the lower place first, as the loader does.
  std::vector<float> other = sample.partner->inputs;
  Picture own_picture{sample.inputs.data(), channels_, size_, size_};
  Picture other_picture{other.data(), channels_, size_, size_};
  if (partner < place) std::swap(own_picture, other_picture);
  MixPair(sample.mix, own_picture, other_picture);
  return sample;
}

absl::StatusOr<MadeSample> SampleRecreation::Make(uint64_t step, uint64_t place) const {
  MadeSample made;
  made.place = place;
  made.stands = sampler_.PlaceOf(step, place);
  const auto number = static_cast<uint64_t>(sampler_.Ids(step, Shard{place, place + 1}).front());
  for (uint64_t further = 0;; ++further) {
    std::string bytes;
    MUSTER_ASSIGN_OR_RETURN(made.stored,
                            PlaceOfSample(train_, IdOf((number + further) % samples_)));
    // What cannot be read may be whole for others: nothing stands in for it.
    MUSTER_RETURN_IF_ERROR(ReadStored(data_, made.stored, bytes));
    const absl::Status status = MakeOf(bytes, made);
    if (status.ok()) return made;
    const std::string fault =
        absl::StrCat("sample ", made.stored.key, " in ", made.stored.file, " from byte ",
                     made.stored.offset, " on ", status.message());
    if (broken_limit_ == 0 || further + 1 == samples_) return absl::Status(status.code(), fault);
    made.stands_in_for.push_back(fault);
  }
}

absl::Status SampleRecreation::MakeOf(absl::string_view bytes, MadeSample& made) const {
  const bool changes = augmenter_.config().changes_pictures();
  MUSTER_ASSIGN_OR_RETURN(made.plan, PlanPicture(bytes, decoding_, changes ? &augmenter_ : nullptr,
                                                 made.stands, size_, size_));
  made.inputs.assign(static_cast<size_t>(channels_ * size_ * size_), 0.0f);
  const Picture picture{made.inputs.data(), channels_, size_, size_};
  PictureScratch scratch;
  MUSTER_RETURN_IF_ERROR(MakePicture(bytes, made.plan, decoding_, scratch, picture));
  PixelsToInputs(pixels_, picture);
  return absl::OkStatus();
}

// A job that uses some samples only takes the first of a shuffle (worker/data/subset.h).
uint64_t SampleRecreation::IdOf(uint64_t number) const {
  if (samples_ == train_.size()) return number;
  return Permute(/*seed=*/0, /*epoch=*/0, train_.size(), number);
}

}  // namespace muster::worker
