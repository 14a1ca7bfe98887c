#include "worker/data/mixture.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "worker/data/base/data_fingerprint.h"
#include "worker/data/images/compressed_picture.h"

namespace muster::worker {
namespace {

bool DecodeAlike(const PictureDecoding* a, const PictureDecoding* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->center_crop == b->center_crop && a->upright == b->upright;
}

// Empty, or in what they differ.
std::string Difference(const Dataset& a, const Dataset& b) {
  const auto shape = [](const Dataset& data) { return absl::StrJoin(data.shape(), " x "); };
  if (a.shape() != b.shape()) return absl::StrCat("samples of ", shape(a), " and of ", shape(b));
  if (a.input_type() != b.input_type() || a.target_type() != b.target_type() ||
      a.target_shape() != b.target_shape()) {
    return "samples or targets of other types";
  }
  if (a.classes() != b.classes()) {
    return absl::StrCat(a.classes(), " classes and ", b.classes());
  }
  if (a.class_names() != b.class_names()) return "other classes: they must have the same names";
  if (a.pixels().mean != b.pixels().mean || a.pixels().std != b.pixels().std)
    return "another mean or std";
  if (!DecodeAlike(a.decoding(), b.decoding())) return "another center_crop or upright";
  return "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<Mixture>> Mixture::Create(std::vector<Source> sources) {
  MUSTER_CHECK(!sources.empty(), "a mixture has sources");
  const Source& first = sources.front();
  std::vector<std::string> fingerprints;
  for (const Source& source : sources) {
    const std::string difference = Difference(*first.dataset, *source.dataset);
    if (!difference.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the sources ", first.name, " and ", source.name, " have ", difference));
    }
    if (source.dataset->size(Split::kTrain) == 0)
      return absl::InvalidArgumentError(absl::StrCat("the source ", source.name, " is empty"));
    fingerprints.push_back(source.dataset->fingerprint());
  }
  return std::unique_ptr<Mixture>(
      new Mixture(std::move(sources), MixtureFingerprint(fingerprints)));
}

Mixture::Mixture(std::vector<Source> sources, std::string fingerprint)
    : Dataset(sources.front().dataset->shape(),
              {sources.front().dataset->input_type(), sources.front().dataset->target_type(),
               sources.front().dataset->target_shape()},
              sources.front().dataset->classes(), std::move(fingerprint),
              sources.front().dataset->pixels(), sources.front().dataset->class_names()),
      sources_(std::move(sources)) {}

std::vector<uint64_t> Mixture::source_sizes() const {
  std::vector<uint64_t> sizes;
  for (const Source& source : sources_)
    sizes.push_back(static_cast<uint64_t>(source.dataset->size(Split::kTrain)));
  return sizes;
}

int64_t Mixture::size(Split split) const {
  int64_t samples = 0;
  for (const Source& source : sources_) samples += source.dataset->size(split);
  return samples;
}

Mixture::Place Mixture::PlaceOf(Split split, int64_t id) const {
  MUSTER_CHECK(id >= 0, "a sample's id lies in its set");
  for (size_t source = 0;; ++source) {
    MUSTER_CHECK(source < sources_.size(), "a sample's id lies in its set");
    const int64_t samples = at(source).size(split);
    if (id < samples) return {source, id};
    id -= samples;
  }
}

absl::StatusOr<StoredSample> Mixture::Read(Split split, int64_t id, std::string& storage) const {
  const Place place = PlaceOf(split, id);
  MUSTER_ASSIGN_OR_RETURN(StoredSample sample, at(place.source).Read(split, place.id, storage));
  sample.source = place.source;
  return sample;
}

bool Mixture::in_files() const {
  for (const Source& source : sources_) {
    if (source.dataset->in_files()) return true;
  }
  return false;
}

// Sources in files have them from one file system.
FileSystem* Mixture::files() const {
  for (const Source& source : sources_) {
    if (source.dataset->files() != nullptr) return source.dataset->files();
  }
  return nullptr;
}

void Mixture::WillRead(Split split, const std::vector<int64_t>& ids) const {
  std::vector<std::vector<int64_t>> of_source(sources_.size());
  for (const int64_t id : ids) {
    const Place place = PlaceOf(split, id);
    of_source[place.source].push_back(place.id);
  }
  for (size_t source = 0; source < sources_.size(); ++source)
    at(source).WillRead(split, of_source[source]);
}

int64_t Mixture::IdInStorage(int64_t place) const {
  const Place in_source = PlaceOf(Split::kTrain, place);
  return place - in_source.id + at(in_source.source).IdInStorage(in_source.id);
}

int64_t Mixture::bytes() const {
  int64_t bytes = 0;
  for (const Source& source : sources_) bytes += source.dataset->bytes();
  return bytes;
}

void Mixture::Decode(const StoredSample& sample, const SampleSlot& slot) const {
  at(sample.source).Decode(sample, slot);
}

const PictureDecoding* Mixture::decoding() const { return at(0).decoding(); }

std::string Mixture::NameOf(Split split, int64_t id) const {
  const Place place = PlaceOf(split, id);
  return absl::StrCat(sources_[place.source].name, ": ", at(place.source).NameOf(split, place.id));
}

}  // namespace muster::worker
