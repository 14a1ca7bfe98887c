#include "worker/data/images/picture_files.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/object_store/remote_path.h"
#include "worker/data/formats/sample_reader.h"
#include "worker/data/images/picture_set.h"

namespace muster::worker {
namespace {

// The files of a split lie all in one place.
bool IsRemote(const SampleIndex& index) {
  if (index.files() == 0) return false;
  const absl::StatusOr<SampleIndex::File> file = index.FileAt(0);
  return file.ok() && IsRemotePath(file->path);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> PictureFiles::Create(
    std::shared_ptr<AnyFileSystem> files, std::array<std::unique_ptr<SampleIndex>, 3> splits,
    const PictureFilesConfig& config) {
  MUSTER_ASSIGN_OR_RETURN(const int64_t classes, CountPictureClasses(splits, config.classes));
  StorageOrder storage_order;
  if (config.storage_order) {
    MUSTER_ASSIGN_OR_RETURN(storage_order, StorageOrder::Of(*splits[0]));
  }
  std::string fingerprint = PictureSetFingerprint(splits, storage_order, config.channels,
                                                  config.size, config.decoding.upright);
  return std::unique_ptr<Dataset>(new PictureFiles(std::move(files), std::move(splits), config,
                                                   classes, std::move(fingerprint),
                                                   std::move(storage_order)));
}

PictureFiles::PictureFiles(std::shared_ptr<AnyFileSystem> files,
                           std::array<std::unique_ptr<SampleIndex>, 3> splits,
                           const PictureFilesConfig& config, int64_t classes,
                           std::string fingerprint, StorageOrder storage_order)
    : Dataset({config.channels, config.size, config.size}, {at::kFloat, at::kLong, {}}, classes,
              std::move(fingerprint), config.pixels, splits[0]->class_names()),
      files_(std::move(files)),
      splits_(std::move(splits)),
      is_remote_({IsRemote(*splits_[0]), IsRemote(*splits_[1]), IsRemote(*splits_[2])}),
      decoding_(config.decoding),
      storage_order_(std::move(storage_order)) {}

int64_t PictureFiles::size(Split split) const { return static_cast<int64_t>(index(split).size()); }

// The picture's bytes, and after them its class as the slot of a target has it.
absl::StatusOr<StoredSample> PictureFiles::Read(Split split, int64_t id,
                                                std::string& storage) const {
  MUSTER_CHECK(id >= 0 && id < size(split), "a sample's id lies in its set");
  MUSTER_ASSIGN_OR_RETURN(const SampleIndex::Place place,
                          index(split).PlaceOf(static_cast<uint64_t>(id)));
  const FoundSample& sample = place.sample;
  if (sample.size > kMostSampleBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        NameOf(split, id), " has ", sample.size, " bytes; a picture may have ", kMostSampleBytes));
  }
  storage.resize(sample.size + sizeof(int64_t));
  MUSTER_RETURN_IF_ERROR(ReadSample(*files_, std::string(place.file.path), sample.offset,
                                    sample.size, storage.data()));
  std::memcpy(storage.data() + sample.size, &sample.label, sizeof(int64_t));
  const absl::string_view all = storage;
  return StoredSample{all.substr(0, sample.size), all.substr(sample.size)};
}

void PictureFiles::WillRead(Split split, const std::vector<int64_t>& ids) const {
  if (!is_remote_[static_cast<size_t>(split)]) return;
  for (const int64_t id : ids) {
    const absl::StatusOr<SampleIndex::Place> place =
        index(split).PlaceOf(static_cast<uint64_t>(id));
    if (!place.ok()) continue;  // Read says so
    files_->WillRead(std::string(place->file.path), place->sample.offset, place->sample.size);
  }
}

std::string PictureFiles::NameOf(Split split, int64_t id) const {
  const absl::StatusOr<SampleIndex::Place> place = index(split).PlaceOf(static_cast<uint64_t>(id));
  if (!place.ok()) return Dataset::NameOf(split, id);
  return absl::StrCat("sample ", place->sample.key, " (number ", id, " of ", SplitName(split),
                      ", in ", place->file.path, " from byte ", place->sample.offset, " on)");
}

}  // namespace muster::worker
