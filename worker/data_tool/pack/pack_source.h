// What is packed: the sets of a data set in any format that is read, and the samples of each.
//
// Used by Packer. Immutable after its making; any thread may read.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "common/object_store/cache/any_file_system.h"
#include "worker/data/index/sample_index.h"
#include "worker/data_tool/base/open_data.h"

namespace muster::worker {

// Samples of one index or of several, by a number of their own.
class SampleSet {
 public:
  SampleSet(std::string name, std::vector<const SampleIndex*> indexes,
            std::optional<std::vector<uint64_t>> chosen = std::nullopt);

  const std::string& name() const { return name_; }  // "train", ...
  uint64_t size() const { return chosen_.has_value() ? chosen_->size() : all_; }
  // Requires number < size. As PlaceOfSample.
  absl::StatusOr<StoredPlace> At(uint64_t number) const;

 private:
  const std::string name_;
  const std::vector<const SampleIndex*> indexes_;
  uint64_t all_ = 0;
  const std::optional<std::vector<uint64_t>> chosen_;
};

struct SourceOptions {
  std::string path;
  std::string spool_folder;  // for Parquet: on `local`
  double validation = 0;  // share to be held out where the data name no sets; 0: as they are read
  bool numbered = false;
  std::function<void(uint64_t samples)> progress = [](uint64_t) {};  // while it is indexed
};

class PackSource {
 public:
  // The errors of FindFormat, OpenOrMakeIndexes and SpoolParquet; INVALID_ARGUMENT when
  // `validation` is asked for and the data name a set for it already, or when keys would no longer
  // be in their order as tar members' (member_key.h).
  static absl::StatusOr<std::unique_ptr<PackSource>> Open(AnyFileSystem& data, FileSystem& local,
                                                          const SourceOptions& options);

  const std::vector<SampleSet>& sets() const { return sets_; }
  const std::vector<std::string>& class_names() const { return class_names_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t samples() const { return samples_; }
  uint64_t changed_keys() const { return changed_keys_; }  // that have a '-' for a dot
  // Whether the sets are the tenths of the one that the data have, chosen here.
  bool holds_out_by_key() const { return holds_out_by_key_; }
  // Names what is packed: keys, labels and sizes of each set.
  const std::string& fingerprint() const { return fingerprint_; }
  // All bytes of a sample. As ReadStored.
  absl::Status Read(const StoredPlace& place, std::string& bytes) const;

 private:
  PackSource(AnyFileSystem& data, FileSystem& local, const SourceOptions& options)
      : data_(data), local_(local), options_(options) {}
  absl::Status OpenIndexes();
  absl::Status MakeSets(bool sets_are_named);
  absl::Status HoldOutByKey(const SampleIndex& index);
  absl::Status HoldOut(const std::vector<const SampleIndex*>& indexes);
  absl::Status CheckKeys();

  AnyFileSystem& data_;
  FileSystem& local_;
  const SourceOptions options_;
  std::array<std::unique_ptr<SampleIndex>, 3> indexes_;  // null: none, or the same as another
  std::vector<SampleSet> sets_;
  std::vector<std::string> class_names_;
  uint64_t bytes_ = 0;
  uint64_t samples_ = 0;
  uint64_t changed_keys_ = 0;
  bool holds_out_by_key_ = false;
  std::string fingerprint_;
};

}  // namespace muster::worker
