#include "worker/data_tool/pack/pack_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/formats/find_format.h"
#include "worker/data_tool/base/interruption.h"
#include "worker/data_tool/pack/class_split.h"
#include "worker/data_tool/pack/member_key.h"
#include "worker/data_tool/pack/parquet_samples.h"

namespace muster::worker {

SampleSet::SampleSet(std::string name, std::vector<const SampleIndex*> indexes,
                     std::optional<std::vector<uint64_t>> chosen)
    : name_(std::move(name)), indexes_(std::move(indexes)), chosen_(std::move(chosen)) {
  for (const SampleIndex* index : indexes_) all_ += index->size();
}

absl::StatusOr<StoredPlace> SampleSet::At(uint64_t number) const {
  uint64_t id = chosen_.has_value() ? (*chosen_)[number] : number;
  size_t at = 0;
  for (; id >= indexes_[at]->size(); ++at) id -= indexes_[at]->size();
  return PlaceOfSample(*indexes_[at], id);
}

absl::StatusOr<std::unique_ptr<PackSource>> PackSource::Open(AnyFileSystem& data, FileSystem& local,
                                                             const SourceOptions& options) {
  std::unique_ptr<PackSource> source(new PackSource(data, local, options));
  MUSTER_RETURN_IF_ERROR(source->OpenIndexes());
  MUSTER_RETURN_IF_ERROR(source->CheckKeys());
  return source;
}

absl::Status PackSource::OpenIndexes() {
  MUSTER_ASSIGN_OR_RETURN(FoundData found, FindFormat(data_, options_.path));
  const bool sets_are_named = !found.validation.empty() || !found.test.empty();
  if (found.format == DataFormat::kParquet) {
    MUSTER_RETURN_IF_ERROR(TakeUnnamedForTraining(options_.path, found));
    uint64_t rows = 0;
    ParquetSpooling spooling{.folder = options_.spool_folder, .numbered = options_.numbered};
    spooling.progress = [&] { options_.progress(++rows); };
    MUSTER_ASSIGN_OR_RETURN(indexes_, SpoolParquet(data_, local_, found, spooling));
    holds_out_by_key_ = !sets_are_named && options_.validation == 0;
    return MakeSets(sets_are_named);
  }
  IndexOptions index_options;
  index_options.path = options_.path;
  index_options.progress = options_.progress;
  index_options.goes_on = [] { return !Interrupted(); };
  MUSTER_ASSIGN_OR_RETURN(DataIndexes indexes, OpenOrMakeIndexes(data_, local_, index_options));
  indexes_ = std::move(indexes.splits);
  // The one of the two that the data name stands for both.
  if (sets_are_named && found.validation.empty()) indexes_[1] = nullptr;
  if (sets_are_named && found.test.empty()) indexes_[2] = nullptr;
  return MakeSets(sets_are_named);
}

absl::Status PackSource::MakeSets(bool sets_are_named) {
  std::vector<const SampleIndex*> there;
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    const SampleIndex* index = indexes_[static_cast<size_t>(split)].get();
    if (index == nullptr) continue;
    there.push_back(index);
    if (class_names_.empty()) class_names_ = index->class_names();
    bytes_ += index->sample_bytes();
    samples_ += index->size();
    absl::StrAppend(&fingerprint_, SplitName(split), ":", index->fingerprint(), " ");
    if (options_.validation == 0 && !holds_out_by_key_)
      sets_.emplace_back(SplitName(split), std::vector{index});
  }
  if (holds_out_by_key_) return HoldOutByKey(*there.front());
  if (options_.validation == 0) return absl::OkStatus();
  if (sets_are_named) {
    return absl::InvalidArgumentError(
        absl::StrCat(options_.path,
                     " names its sets for validation or test: leave out "
                     "--validation, they are packed as they are"));
  }
  return HoldOut(there);
}

// The tenths that training would hold out.
absl::Status PackSource::HoldOutByKey(const SampleIndex& index) {
  std::array<std::vector<uint64_t>, 3> numbers;
  for (uint64_t id = 0; id < index.size(); ++id) {
    MUSTER_ASSIGN_OR_RETURN(const FoundSample sample, index.At(id));
    numbers[static_cast<size_t>(SplitOfKey(sample.key))].push_back(id);
  }
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    sets_.emplace_back(SplitName(split), std::vector{&index},
                       std::move(numbers[static_cast<size_t>(split)]));
  }
  return absl::OkStatus();
}

absl::Status PackSource::HoldOut(const std::vector<const SampleIndex*>& indexes) {
  std::vector<HashedSample> hashed;
  hashed.reserve(samples_);
  for (const SampleIndex* index : indexes) {
    for (uint64_t id = 0; id < index->size(); ++id) {
      MUSTER_ASSIGN_OR_RETURN(const FoundSample sample, index->At(id));
      hashed.push_back({sample.label, KeyHash(sample.key, /*seed=*/0)});
    }
  }
  const std::vector<uint8_t> parts = SplitByClass(hashed, options_.validation, /*test=*/0);
  std::vector<uint64_t> train, validation;
  for (uint64_t number = 0; number < parts.size(); ++number)
    (parts[number] == 0 ? train : validation).push_back(number);
  sets_.emplace_back("train", indexes, std::move(train));
  sets_.emplace_back("validation", indexes, std::move(validation));
  return absl::OkStatus();
}

// A sample's number is the rank of its key: the packed keys must have the same ranks.
absl::Status PackSource::CheckKeys() {
  for (const SampleSet& set : sets_) {
    uint64_t changed = 0;
    for (uint64_t number = 0; number < set.size(); ++number) {
      MUSTER_ASSIGN_OR_RETURN(const StoredPlace place, set.At(number));
      MUSTER_ASSIGN_OR_RETURN(const std::string key, MemberKey(place.key));
      if (key != place.key) ++changed;
    }
    changed_keys_ += changed;
    if (changed == 0) continue;
    std::vector<std::pair<std::string, std::string>> keys;
    for (uint64_t number = 0; number < set.size(); ++number) {
      MUSTER_ASSIGN_OR_RETURN(StoredPlace place, set.At(number));
      MUSTER_ASSIGN_OR_RETURN(std::string key, MemberKey(place.key));
      keys.emplace_back(std::move(place.key), std::move(key));
    }
    std::sort(keys.begin(), keys.end());
    const auto wrong =
        std::adjacent_find(keys.begin(), keys.end(),
                           [](const auto& a, const auto& b) { return a.second >= b.second; });
    if (wrong == keys.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "keys in a tar end at the first dot of their last part; with '-' for it, the samples '",
        wrong->first, "' and '", std::next(wrong)->first, "' would change their order"));
  }
  return absl::OkStatus();
}

absl::Status PackSource::Read(const StoredPlace& place, std::string& bytes) const {
  const bool spooled = !options_.spool_folder.empty() &&
                       absl::StartsWith(place.file, absl::StrCat(options_.spool_folder, "/"));
  return ReadStored(spooled ? local_ : data_, place, bytes);
}

}  // namespace muster::worker
