// Where each sample of a split lies: by its id, which is the rank of its key in byte order.
//
// Written once by IndexWriter, in a file of its own; used by whatever reads samples. Opening costs
// the same for ten samples and for a hundred million: the file is mapped, and an entry is read when
// it is asked for. Immutable; any thread may ask.
//
//   index  = magic, entry*, keys, file*, paths, footer, u32 bytes of it, u64 hash of it, magic
//   entry  = u64 offset, u64 end of its key in keys, u64 size, u32 file, i32 label
//   file   = u64 size, u64 end of its path in paths
//   footer = JSON: counts, fingerprint, names of the classes
//
// Integers are little-endian; the hash is XXH3-64.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/formats/sample_sink.h"
#include "worker/data/index/mapped_file.h"

namespace muster::worker {

class SampleIndex {
 public:
  // DATA_LOSS when the file is no whole index: remove it, and it is made again. Else those of
  // MappedFile.
  static absl::StatusOr<std::unique_ptr<SampleIndex>> Open(
      const std::string& path,
      const MappedFile::Progress& progress = [] { return absl::OkStatus(); });

  uint64_t size() const { return samples_; }
  const std::string& path() const { return path_; }  // of the index's file
  // Valid as long as the index. Requires id < size. DATA_LOSS when the entry is broken.
  absl::StatusOr<FoundSample> At(uint64_t id) const;
  // The id of the sample with this key. NOT_FOUND.
  absl::StatusOr<uint64_t> Find(absl::string_view key) const;

  uint64_t files() const { return files_; }
  struct File {
    absl::string_view path;
    uint64_t size_bytes = 0;  // when it was indexed
  };
  // Requires file < files.
  absl::StatusOr<File> FileAt(uint32_t file) const;

  // A sample with the file that it lies in. Requires id < size. DATA_LOSS when either entry is
  // broken, or the sample does not lie in the file.
  struct Place {
    FoundSample sample;
    File file;
  };
  absl::StatusOr<Place> PlaceOf(uint64_t id) const;

  // Empty: the data does not say. Else label l is class_names()[l].
  const std::vector<std::string>& class_names() const { return class_names_; }
  // The least label and the greatest; kNoLabel both: some sample has none, or there are none.
  int64_t least_label() const { return least_label_; }
  int64_t greatest_label() const { return greatest_label_; }
  // Hex, of all keys, labels and sizes: the same for the same data in every format.
  const std::string& fingerprint() const { return fingerprint_; }
  // The same of indexes that were made together, or of the same data.
  const std::string& set() const { return set_; }
  uint64_t sample_bytes() const { return sample_bytes_; }  // of all samples together

 private:
  SampleIndex(std::string path, std::unique_ptr<MappedFile> file)
      : path_(std::move(path)), mapped_(std::move(file)) {}
  absl::Status ReadFooter();
  absl::Status Broken(absl::string_view why) const;
  absl::StatusOr<absl::string_view> KeyAt(uint64_t id) const;

  const std::string path_;
  const std::unique_ptr<MappedFile> mapped_;
  uint64_t samples_ = 0;
  uint64_t files_ = 0;
  absl::string_view entries_, keys_, file_table_, paths_;
  std::vector<std::string> class_names_;
  int64_t least_label_ = kNoLabel, greatest_label_ = kNoLabel;
  std::string fingerprint_;
  std::string set_;
  uint64_t sample_bytes_ = 0;
};

}  // namespace muster::worker
