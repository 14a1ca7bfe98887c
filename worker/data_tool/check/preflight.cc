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
      if (!IsFaultOfSample(status)) return status;
      if (report.broken == most_broken) return absl::InvalidArgumentError(status.message());
      ++report.broken;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<PreflightReport> PreflightPictures(AnyFileSystem& data, FileSystem& local,
                                                  const trainer_spec::Images& images,
                                                  bool in_windows, uint64_t seed,
                                                  const std::function<void(uint64_t)>& progress) {
  IndexOptions options;
  options.path = images.path;
  options.progress = progress;
  options.goes_on = [] { return !Interrupted(); };
  const absl::StatusOr<DataIndexes> opened = OpenOrMakeIndexes(data, local, options);
  // Of a kind that no worker reads.
  if (absl::IsUnimplemented(opened.status()))
    return absl::InvalidArgumentError(opened.status().message());
  MUSTER_RETURN_IF_ERROR(opened.status());
  const DataIndexes& indexes = *opened;
  MUSTER_RETURN_IF_ERROR(CountPictureClasses(indexes.splits, images.classes).status());
  PreflightReport report;
  for (size_t i = 0; i < report.samples.size(); ++i) report.samples[i] = indexes.splits[i]->size();
  StorageOrder order;
  if (in_windows) {
    MUSTER_ASSIGN_OR_RETURN(order, StorageOrder::Of(IndexOf(indexes, Split::kTrain)));
  }
  report.fingerprint =
      PictureSetFingerprint(indexes.splits, order, images.channels, images.size, images.upright);
  MUSTER_RETURN_IF_ERROR(TryPictures(data, indexes, seed, images.broken_samples, report));
  return report;
}

absl::StatusOr<PreflightReport> PreflightSource(AnyFileSystem& data, FileSystem& local,
                                                const trainer_spec::Data& source, bool in_windows,
                                                uint64_t seed,
                                                const std::function<void(uint64_t)>& progress) {
  if (source.images.has_value())
    return PreflightPictures(data, local, *source.images, in_windows, seed, progress);
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
  const bool in_windows = train.data.shuffle_window > 0;
  if (!train.data.mixture.has_value())
    return PreflightSource(data, local, train.data, in_windows, train.seed, progress);
  PreflightReport all;
  std::vector<std::string> fingerprints;
  bool is_known = true;
  for (const trainer_spec::Data& source : SourcesOf(train.data)) {
    MUSTER_ASSIGN_OR_RETURN(const PreflightReport report,
                            PreflightSource(data, local, source, in_windows, train.seed, progress));
    is_known = is_known && !report.fingerprint.empty();
    fingerprints.push_back(report.fingerprint);
    for (size_t i = 0; i < all.samples.size(); ++i) all.samples[i] += report.samples[i];
    all.tried += report.tried;
    all.broken += report.broken;
  }
  if (is_known) all.fingerprint = MixtureFingerprint(fingerprints);
  return all;
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
  trainer_spec::Train train = spec.train;
  MUSTER_RETURN_IF_ERROR(ForEachPath(train.data, [&](std::string& path) -> absl::Status {
    MUSTER_ASSIGN_OR_RETURN(path, data.KeepQuery(path));
    return absl::OkStatus();
  }));
  MUSTER_ASSIGN_OR_RETURN(PreflightReport report, PreflightSources(data, local, train, progress));
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
  // Of a mixture the first source that is not there. Looked for only where it matters: a storage
  // that is away takes minutes to say so.
  std::string path;
  const auto is_missing = [&] {
    for (const trainer_spec::Data& source : SourcesOf(spec.train.data)) {
      path = PathOf(source);
      if (!data.Exists(path).value_or(false) || IsEmptyFolder(data, path)) return true;
    }
    return false;
  };
  switch (why.code()) {
    case absl::StatusCode::kNotFound:
      // Else a column is missing, or a file of what is there.
      return is_missing() ? "missing" : "broken";
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return "forbidden";
    case absl::StatusCode::kInvalidArgument:
      return is_missing() && IsEmptyFolder(data, path) ? "missing" : "broken";
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
