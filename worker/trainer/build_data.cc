#include "absl/strings/str_cat.h"
#include "worker/train/failure.h"
#include "worker/train/seeding.h"
#include "worker/trainer/compose.h"

namespace muster::worker {
namespace {

std::vector<int64_t> ToInt64(const std::vector<uint32_t>& values) {
  return std::vector<int64_t>(values.begin(), values.end());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> BuildDataset(const trainer_spec::JobSpec& spec,
                                                      FileSystem& fs) {
  const trainer_spec::Data& data = spec.train.data;
  if (data.digits.has_value()) {
    const std::string& path = data.digits->path;
    auto digits = ReadDigits(fs, {path, static_cast<int64_t>(data.digits->image_size)});
    if (digits.ok()) return digits;
    return Classify(digits.status(), kDataError, absl::StrCat("train.data.digits.path ", path));
  }
  if (data.synthetic.has_value()) {
    const trainer_spec::Synthetic& synthetic = *data.synthetic;
    auto made = MakeSynthetic({static_cast<int64_t>(synthetic.samples), ToInt64(synthetic.shape),
                               static_cast<int64_t>(synthetic.classes),
                               SeedFor(spec.train.seed, SeedPurpose::kSyntheticData)});
    if (made.ok()) return made;
    return Classify(made.status(), kDataError, "train.data.synthetic");
  }
  return Classify(absl::InvalidArgumentError("train.data names no source"), kStartFailed);
}

Sampler BuildSampler(const trainer_spec::Train& train, const Dataset& dataset) {
  Sampler sampler(static_cast<uint64_t>(dataset.size(Split::kTrain)), train.batch_size,
                  SeedFor(train.seed, SeedPurpose::kDataOrder));
  if (train.epochs > 0) sampler.LimitToEpochs(train.epochs);
  return sampler;
}

}  // namespace muster::worker
