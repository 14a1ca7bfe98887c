// Compressed pictures in files: a dataset whose samples are read when they are asked for, and
// decoded to the size that the model is given (transform.h).
//
// Any thread may read. In memory are only the indexes, mapped.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/object_store/cache/any_file_system.h"
#include "worker/data/base/dataset.h"
#include "worker/data/images/compressed_picture.h"
#include "worker/data/index/sample_index.h"
#include "worker/data/index/storage_order.h"

namespace muster::worker {

struct PictureFilesConfig {
  int64_t size = 224;    // height and width of what the model is given
  int64_t channels = 3;  // 3 or 1
  PixelScale pixels;     // for each channel
  PictureDecoding decoding;
  int64_t classes = 0;  // 0: as many as the training set's labels tell
  // Whether IdInStorage knows how the training set lies in its files: in memory, 4 bytes a sample.
  bool storage_order = false;
};

class PictureFiles final : public Dataset {
 public:
  // `files`: where the indexes' paths lead to; who makes it may share it. INVALID_ARGUMENT when a
  // split has samples without a label or with one that is no class, when the training set is empty,
  // or has fewer than two classes.
  static absl::StatusOr<std::unique_ptr<Dataset>> Create(
      std::shared_ptr<AnyFileSystem> files, std::array<std::unique_ptr<SampleIndex>, 3> splits,
      const PictureFilesConfig& config);

  int64_t size(Split split) const override;
  // DATA_LOSS when the file has become shorter; else the file system's codes.
  absl::StatusOr<StoredSample> Read(Split split, int64_t id, std::string& storage) const override;
  bool in_files() const override { return true; }
  FileSystem* files() const override { return files_.get(); }
  void WillRead(Split split, const std::vector<int64_t>& ids) const override;
  std::string NameOf(Split split, int64_t id) const override;
  const PictureDecoding* decoding() const override { return &decoding_; }
  int64_t IdInStorage(int64_t place) const override {
    return static_cast<int64_t>(storage_order_.IdAt(static_cast<uint64_t>(place)));
  }
  int64_t bytes() const override { return storage_order_.bytes(); }

 private:
  PictureFiles(std::shared_ptr<AnyFileSystem> files,
               std::array<std::unique_ptr<SampleIndex>, 3> splits, const PictureFilesConfig& config,
               int64_t classes, std::string fingerprint, StorageOrder storage_order);
  const SampleIndex& index(Split split) const { return *splits_[static_cast<size_t>(split)]; }

  const std::shared_ptr<AnyFileSystem> files_;
  const std::array<std::unique_ptr<SampleIndex>, 3> splits_;
  const std::array<bool, 3> is_remote_;  // of each split: only then is it worth a hint
  const PictureDecoding decoding_;
  const StorageOrder storage_order_;
};

}  // namespace muster::worker
