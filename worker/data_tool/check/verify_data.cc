#include "worker/data_tool/check/verify_data.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "worker/data/broken_samples.h"
#include "worker/data/formats/shard_index.h"
#include "worker/data/pictures/picture_decoder.h"
#include "worker/data_tool/base/open_data.h"
#include "worker/data_tool/base/parallel_work.h"
#include "worker/data_tool/check/verify_files.h"

namespace muster::worker {
namespace {

// So that each scan is decoded, but little is written.
constexpr int32_t kTinySide = 8;

// The first broken samples by their order, and how many there are.
class BrokenList {
 public:
  explicit BrokenList(size_t most) : most_(most) {}

  void Add(BrokenSample sample) {
    MutexLock lock(mutex_);
    ++count_;
    listed_.emplace(std::pair(sample.split, sample.id), std::move(sample));
    if (listed_.size() > most_) listed_.erase(std::prev(listed_.end()));
  }
  uint64_t count() {
    MutexLock lock(mutex_);
    return count_;
  }
  void MoveTo(std::vector<BrokenSample>& list) {
    MutexLock lock(mutex_);
    for (auto& [place, sample] : listed_)
      if (list.size() < most_) list.push_back(std::move(sample));
  }

 private:
  const size_t most_;
  Mutex mutex_;
  uint64_t count_ MUSTER_GUARDED_BY(mutex_) = 0;
  std::map<std::pair<Split, uint64_t>, BrokenSample> listed_ MUSTER_GUARDED_BY(mutex_);
};

class Verifier {
 public:
  Verifier(FileSystem& data, const DataIndexes& indexes, const VerifyOptions& options)
      : data_(data), indexes_(indexes), options_(options), broken_(options.most_listed) {
    const SampleIndex& train = IndexOf(indexes, Split::kTrain);
    classes_ = std::max<int64_t>(static_cast<int64_t>(train.class_names().size()),
                                 train.greatest_label() + 1);
    labelled_ = classes_ > 0;
    for (int thread = 0; thread < std::max(1, options.threads); ++thread)
      scratches_.push_back(std::make_unique<Scratch>());
  }

  absl::StatusOr<VerifyReport> Run() {
    const bool has_checksums = indexes_.format == DataFormat::kTfRecord && !options_.headers_only;
    if (has_checksums || indexes_.format == DataFormat::kWebDataset)
      MUSTER_RETURN_IF_ERROR(VerifyFiles());
    for (const Split split : OwnSplits(indexes_)) {
      const SampleIndex& index = IndexOf(indexes_, split);
      report_.samples += index.size();
      report_.bytes += index.sample_bytes();
      MUSTER_RETURN_IF_ERROR(
          DoInParallel(options_.threads, index.size(), [&](int thread, uint64_t id) {
            return VerifySample(split, index, id, *scratches_[static_cast<size_t>(thread)]);
          }));
    }
    report_.broken += broken_.count();
    broken_.MoveTo(report_.listed);
    return std::move(report_);
  }

 private:
  struct Scratch {
    PictureDecoder decoder;
    std::string bytes;
    std::array<uint8_t, kTinySide * kTinySide * 3> pixels;
  };

  absl::Status VerifySample(Split split, const SampleIndex& index, uint64_t id, Scratch& scratch) {
    MUSTER_ASSIGN_OR_RETURN(const StoredPlace place, PlaceOfSample(index, id));
    const absl::Status status = CheckSample(place, scratch);
    if (!status.ok()) {
      if (!IsFaultOfSample(status) && !absl::IsNotFound(status) && !absl::IsDataLoss(status) &&
          !absl::IsPermissionDenied(status) && !absl::IsFailedPrecondition(status)) {
        return status;
      }
      broken_.Add({split, id, place.key, place.file, place.offset, std::string(status.message())});
    }
    options_.progress();
    return absl::OkStatus();
  }

  absl::Status CheckSample(const StoredPlace& place, Scratch& scratch) const {
    if (labelled_ && place.label == kNoLabel) return absl::InvalidArgumentError("has no class");
    if (place.label >= classes_ && labelled_) {
      return absl::InvalidArgumentError(
          absl::StrCat("has the class ", place.label, ", and there are ", classes_));
    }
    const uint64_t wanted = options_.headers_only ? kPictureHeaderBytes : UINT64_MAX;
    MUSTER_RETURN_IF_ERROR(ReadStored(data_, place, scratch.bytes, wanted));
    absl::StatusOr<PictureHeader> header = ReadPictureHeader(scratch.bytes);
    if (!header.ok() && scratch.bytes.size() < place.size) {
      MUSTER_RETURN_IF_ERROR(ReadStored(data_, place, scratch.bytes));
      header = ReadPictureHeader(scratch.bytes);
    }
    MUSTER_RETURN_IF_ERROR(header.status());
    if (options_.headers_only) return absl::OkStatus();
    return scratch.decoder.Decode(
        scratch.bytes, *header, {0, 0, header->width, header->height},
        {.width = kTinySide, .height = kTinySide, .channels = 3, .pixels = scratch.pixels.data()});
  }

  // What the files say of themselves.
  absl::Status VerifyFiles() {
    std::vector<std::pair<Split, std::string>> files;
    for (const Split split : OwnSplits(indexes_)) {
      const SampleIndex& index = IndexOf(indexes_, split);
      for (uint32_t file = 0; file < index.files(); ++file) {
        MUSTER_ASSIGN_OR_RETURN(const SampleIndex::File found, index.FileAt(file));
        std::string path(found.path);
        // Splits that were made by hash share their files.
        const bool is_new = std::none_of(files.begin(), files.end(),
                                         [&](const auto& other) { return other.second == path; });
        if (is_new) files.emplace_back(split, std::move(path));
      }
    }
    // Whether there was something to compare.
    std::vector<absl::StatusOr<bool>> results(files.size(), false);
    MUSTER_RETURN_IF_ERROR(
        DoInParallel(options_.threads, files.size(), [&](int /*thread*/, uint64_t number) {
          results[number] = VerifyFile(files[number].second);
          return absl::OkStatus();
        }));
    const bool are_shards = indexes_.format == DataFormat::kWebDataset;
    for (size_t i = 0; i < files.size(); ++i) {
      if (results[i].value_or(true))
        ++(are_shards ? report_.compared_indexes : report_.checked_files);
      if (results[i].ok()) continue;
      ++report_.broken;
      if (report_.listed.size() < options_.most_listed)
        report_.listed.push_back({.split = files[i].first,
                                  .file = FileOf(files[i].second),
                                  .reason = std::string(results[i].status().message())});
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> VerifyFile(const std::string& path) const {
    if (indexes_.format == DataFormat::kWebDataset) return VerifyShardIndex(data_, path);
    MUSTER_RETURN_IF_ERROR(VerifyChecksums(data_, path));
    return true;
  }
  // The one at fault.
  std::string FileOf(const std::string& path) const {
    return indexes_.format == DataFormat::kWebDataset ? ShardIndexPath(path).value_or(path) : path;
  }

  FileSystem& data_;
  const DataIndexes& indexes_;
  const VerifyOptions& options_;
  BrokenList broken_;
  int64_t classes_ = 0;
  bool labelled_ = false;
  std::vector<std::unique_ptr<Scratch>> scratches_;
  VerifyReport report_;
};

}  // namespace

absl::StatusOr<VerifyReport> VerifyData(FileSystem& data, const DataIndexes& indexes,
                                        const VerifyOptions& options) {
  return Verifier(data, indexes, options).Run();
}

}  // namespace muster::worker
