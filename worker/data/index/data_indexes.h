// The indexes of a data set, one for each split: opened where they are there, made where they are
// not.
//
// Used by whoever reads samples by their numbers. Indexes lie in a folder of the machine, under a
// name that follows from the data's path and files; several processes may ask for the same ones at
// once, and one of them makes them. Any thread.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/fs/file_system.h"
#include "common/object_store/cache/any_file_system.h"
#include "worker/data/base/sample_source.h"
#include "worker/data/formats/find_format.h"
#include "worker/data/index/sample_index.h"

namespace muster::worker {

struct IndexOptions {
  std::string path;    // of the data: a folder, a file or a pattern
  std::string folder;  // of the indexes; empty: that of the user, see IndexFolder
  bool anew = false;   // make them though they are there
  // Called once a second or so, with the samples found so far, also while another process makes
  // them.
  std::function<void(uint64_t samples)> progress = [](uint64_t) {};
  // Asked often, at each sample and each read: whether to go on making them, or waiting for them.
  std::function<bool()> goes_on = [] { return true; };
  // With another process that makes them and gives no sign of life.
  absl::Duration patience = absl::Minutes(5);
};

struct DataIndexes {
  DataFormat format = DataFormat::kImageFolder;
  // Training, validation, test: Split's order. None is null; one may be empty.
  std::array<std::unique_ptr<SampleIndex>, 3> splits;
};

// Where the data do not say what is for validation and what for test, a tenth each of the training
// set is, by a hash of the key; where they name one of both, it serves as both. Another index is
// made when shards, or the files of keys and labels beside them, are other ones by size or time (or
// by the tag that an object store gives them);
// of an image folder far away, when any name or size in it is another; of one of this machine, when
// pictures came to or went from a class folder: not when one was changed in place or in a folder
// below, of which IndexOptions::anew must tell. INVALID_ARGUMENT and
// NOT_FOUND where the data are not what is read, with their path; UNIMPLEMENTED for a format that
// has another reader; UNAVAILABLE when a process that makes them stands still; CANCELLED when
// IndexOptions::goes_on says no; else the file systems' codes.
absl::StatusOr<DataIndexes> OpenOrMakeIndexes(AnyFileSystem& data, FileSystem& local,
                                              const IndexOptions& options);

// Where a sample goes when the data name no sets: by a hash of its key.
Split SplitOfKey(absl::string_view key);

// MUSTER_INDEX_DIR, or muster/index in the user's cache folder (XDG_CACHE_HOME, or .cache of HOME),
// or one of the user's in /var/tmp.
std::string IndexFolder();

}  // namespace muster::worker
