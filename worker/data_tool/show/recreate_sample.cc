#include "worker/data_tool/show/recreate_sample.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "worker/trainer/data/data_recipe.h"

namespace muster::worker {
namespace {

// Samples of each source that the job uses: of a part, there is but one source.
std::vector<uint64_t> UsedSamples(const std::vector<const SampleIndex*>& train,
                                  const trainer_spec::Train& spec) {
  std::vector<uint64_t> used;
  for (const SampleIndex* index : train) {
    const uint64_t subset = spec.data.subset;
    used.push_back(subset > 0 ? std::min<uint64_t>(subset, index->size()) : index->size());
  }
  return used;
}

uint64_t Sum(const std::vector<uint64_t>& values) {
  return std::accumulate(values.begin(), values.end(), uint64_t{0});
}

}  // namespace

absl::StatusOr<std::unique_ptr<SampleRecreation>> SampleRecreation::Create(
    FileSystem& data, std::vector<const SampleIndex*> train, const trainer_spec::Train& spec) {
  const std::vector<trainer_spec::Data> sources = SourcesOf(spec.data);
  for (const trainer_spec::Data& source : sources) {
    if (source.images.has_value()) continue;
    return absl::UnimplementedError(
        "the job's data are not train.data.images: other data have no files with a sample each");
  }
  MUSTER_CHECK(train.size() == sources.size(), "each source has an index");
  std::vector<StorageOrder> storage;
  for (const SampleIndex* index : train) {
    if (index->size() == 0) return absl::InvalidArgumentError("the training set has no pictures");
    if (spec.data.shuffle_window == 0) continue;
    MUSTER_ASSIGN_OR_RETURN(StorageOrder order, StorageOrder::Of(*index));
    storage.push_back(std::move(order));
  }
  if (spec.batch_size == 0) return absl::InvalidArgumentError("train.batch_size is 0");
  return std::unique_ptr<SampleRecreation>(new SampleRecreation(
      data, std::move(train), std::move(storage), spec, *sources.front().images));
}

SampleRecreation::SampleRecreation(FileSystem& data, std::vector<const SampleIndex*> train,
                                   std::vector<StorageOrder> storage,
                                   const trainer_spec::Train& spec,
                                   const trainer_spec::Images& images)
    : data_(data),
      train_(std::move(train)),
      storage_(std::move(storage)),
      subset_(spec.data.subset),
      samples_(Sum(UsedSamples(train_, spec))),
      size_(images.size),
      channels_(images.channels),
      broken_limit_(BrokenLimitOf(spec.data)),
      pixels_(PixelScaleOf(images)),
      inputs_(pixels_),
      decoding_(DecodingOf(images)),
      augmenter_(AugmenterOf(spec, pixels_)),
      sampler_(SamplerOf(spec, UsedSamples(train_, spec))) {}

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
  const uint64_t number = NumberAt(step, place);
  for (uint64_t further = 0;; ++further) {
    std::string bytes;
    const InSource found = InSourceOf((number + further) % samples_);
    made.source = found.source;
    MUSTER_ASSIGN_OR_RETURN(made.stored, PlaceOfSample(*train_[found.source], found.id));
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
  MUSTER_RETURN_IF_ERROR(DecodePlanned(bytes, made.plan, decoding_, picture, scratch));
  inputs_.Make(made.plan, scratch, picture);
  return absl::OkStatus();
}

// The number of the sample among all that the job uses.
uint64_t SampleRecreation::NumberAt(uint64_t step, uint64_t place) const {
  const auto number =
      static_cast<uint64_t>(sampler_.Ids(step, PlaceRange{place, place + 1}).front());
  if (!sampler_.in_windows()) return number;
  const InSource in_storage = InSourceOf(number);
  return number - in_storage.id + storage_[in_storage.source].IdAt(in_storage.id);
}

SampleRecreation::InSource SampleRecreation::InSourceOf(uint64_t number) const {
  // A job that uses some samples only takes the first of a shuffle (worker/data/subset.h).
  if (subset_ > 0 && samples_ < train_.front()->size())
    return {0, Permute(/*seed=*/0, /*round=*/0, train_.front()->size(), number)};
  size_t source = 0;
  for (; number >= train_[source]->size(); ++source) number -= train_[source]->size();
  return {source, number};
}

}  // namespace muster::worker
