#include "worker/data_tool/check/preflight.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/base/data_fingerprint.h"
#include "worker/data/broken_samples.h"
#include "worker/data/images/picture_set.h"
#include "worker/data/index/data_indexes.h"
#include "worker/data/pictures/picture_decoder.h"
#include "worker/data_tool/base/interruption.h"
#include "worker/data_tool/base/open_data.h"
#include "worker/data_tool/check/preflight_rows.h"
#include "worker/trainer/data/data_recipe.h"

namespace muster::worker {
namespace {

// So that each scan is decoded, but little is written.
constexpr int32_t kTriedSide = 8;

// Whether the picture can be made an input of.
absl::Status TryPicture(AnyFileSystem& data, const StoredPlace& place, PictureDecoder& decoder) {
  std::string bytes;
  MUSTER_RETURN_IF_ERROR(ReadStored(data, place, bytes));
  std::array<uint8_t, kTriedSide * kTriedSide * 3> pixels;
  absl::StatusOr<PictureHeader> header = ReadPictureHeader(bytes);
  const absl::Status status =
      header.ok()
          ? decoder.Decode(
                bytes, *header, {0, 0, header->width, header->height},
                {.width = kTriedSide, .height = kTriedSide, .channels = 3, .pixels = pixels.data()})
          : header.status();
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat("sample ", place.key, " (number ", place.id, ", in ", place.file,
                                   " from byte ", place.offset, " on) ", status.message()));
}

absl::Status TryPictures(AnyFileSystem& data, const DataIndexes& indexes, uint64_t seed,
                         uint64_t most_broken, PreflightReport& report) {
  PictureDecoder decoder;
  for (const Split split : OwnSplits(indexes)) {
    const SampleIndex& index = IndexOf(indexes, split);
    for (const uint64_t id : IdsToTry(index.size(), seed ^ static_cast<uint64_t>(split))) {
      MUSTER_RETURN_IF_ERROR(CheckInterrupted());
      MUSTER_ASSIGN_OR_RETURN(const StoredPlace place, PlaceOfSample(index, id));
      ++report.tried;
      const absl::Status status = TryPicture(data, place, decoder);
      if (status.ok()) continue;
      const bool puts_up = IsFaultOfSample(status) && report.broken < most_broken;
      if (!puts_up) return status;
      ++report.broken;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<PreflightReport> PreflightPictures(AnyFileSystem& data, FileSystem& local,
                                                  const trainer_spec::Images& images, uint64_t seed,
                                                  const std::function<void(uint64_t)>& progress) {
  IndexOptions options;
  options.path = images.path;
  options.progress = progress;
  MUSTER_ASSIGN_OR_RETURN(const DataIndexes indexes, OpenOrMakeIndexes(data, local, options));
  MUSTER_RETURN_IF_ERROR(CountPictureClasses(indexes.splits, images.classes).status());
  PreflightReport report;
  for (size_t i = 0; i < report.samples.size(); ++i) report.samples[i] = indexes.splits[i]->size();
  report.fingerprint =
      PictureSetFingerprint(indexes.splits, images.channels, images.size, images.upright);
  MUSTER_RETURN_IF_ERROR(TryPictures(data, indexes, seed, images.broken_samples, report));
  return report;
}

absl::StatusOr<PreflightReport> PreflightSource(AnyFileSystem& data, FileSystem& local,
                                                const trainer_spec::Data& source, uint64_t seed,
                                                const std::function<void(uint64_t)>& progress) {
  if (source.images.has_value())
    return PreflightPictures(data, local, *source.images, seed, progress);
  if (source.tokens.has_value()) return PreflightTokens(data, *source.tokens, seed);
  if (source.text.has_value()) return PreflightText(data, *source.text);
  if (source.csv.has_value()) return PreflightCsv(data, *source.csv);
  if (source.numpy.has_value()) return PreflightNumpy(data, *source.numpy);
  return absl::UnimplementedError(
      "the job's data are none that are looked at first: only images, tokens, text, csv and numpy "
      "are");
}

// Together, as Mixture has them (worker/data/mixture.h).
absl::StatusOr<PreflightReport> PreflightSources(AnyFileSystem& data, FileSystem& local,
                                                 const trainer_spec::Train& train,
                                                 const std::function<void(uint64_t)>& progress) {
  if (!train.data.mixture.has_value())
    return PreflightSource(data, local, train.data, train.seed, progress);
  PreflightReport all;
  std::vector<std::string> fingerprints;
  bool is_known = true;
  for (const trainer_spec::Data& source : SourcesOf(train.data)) {
    MUSTER_ASSIGN_OR_RETURN(const PreflightReport report,
                            PreflightSource(data, local, source, train.seed, progress));
    is_known = is_known && !report.fingerprint.empty();
    fingerprints.push_back(report.fingerprint);
    for (size_t i = 0; i < all.samples.size(); ++i) all.samples[i] += report.samples[i];
    all.tried += report.tried;
    all.broken += report.broken;
  }
  if (is_known) all.fingerprint = MixtureFingerprint(fingerprints);
  return all;
}

std::string PathOf(const trainer_spec::Data& data) {
  if (data.images.has_value()) return data.images->path;
  if (data.tokens.has_value()) return data.tokens->path;
  if (data.text.has_value()) return data.text->path;
  if (data.csv.has_value()) return data.csv->path;
  return data.numpy.has_value() ? data.numpy->path : "";
}

// As one on which nothing is mounted yet.
bool IsEmptyFolder(AnyFileSystem& data, const std::string& path) {
  const absl::StatusOr<std::vector<FileInfo>> files = data.List(path);
  return files.ok() && files->empty();
}

}  // namespace

absl::StatusOr<PreflightReport> Preflight(AnyFileSystem& data, FileSystem& local,
                                          const trainer_spec::JobSpec& spec,
                                          const std::function<void(uint64_t)>& progress) {
  MUSTER_ASSIGN_OR_RETURN(PreflightReport report,
                          PreflightSources(data, local, spec.train, progress));
  const auto keep = [&report](Split split, uint64_t samples) {
    uint64_t& all = report.samples[static_cast<size_t>(split)];
    const bool known = all > 0 && !report.fingerprint.empty();
    if (samples > 0 && !known) report.fingerprint.clear();
    if (samples == 0 || samples >= all || !known) return;
    all = samples;
    report.fingerprint = SubsetFingerprint(report.fingerprint, split, samples);
  };
  keep(Split::kTrain, spec.train.data.subset);
  keep(Split::kValidation, spec.train.validate_samples);
  return report;
}

absl::string_view PreflightFault(AnyFileSystem& data, const trainer_spec::JobSpec& spec,
                                 const absl::Status& why) {
  // Of a mixture the first source that is not there.
  std::string path;
  for (const trainer_spec::Data& source : SourcesOf(spec.train.data)) {
    path = PathOf(source);
    if (!data.Exists(path).value_or(false) || IsEmptyFolder(data, path)) break;
  }
  switch (why.code()) {
    case absl::StatusCode::kNotFound:
      // Else a column is missing, or a file of what is there.
      return !data.Exists(path).value_or(false) || IsEmptyFolder(data, path) ? "missing" : "broken";
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return "forbidden";
    case absl::StatusCode::kInvalidArgument:
      return IsEmptyFolder(data, path) ? "missing" : "broken";
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kDataLoss:
      return "broken";
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
      return "unavailable";
    default:
      return "other";
  }
}

}  // namespace muster::worker
