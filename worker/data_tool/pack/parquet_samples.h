// The pictures of Parquet files where they can be read at any place, as those of other formats.
//
// Used by pack. A picture that a file holds uncompressed stays where it is; the others are written
// one after the other to a file of their own, once. One thread.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "worker/data/formats/find_format.h"
#include "worker/data/index/sample_index.h"

namespace muster::worker {

struct ParquetSpooling {
  std::string folder;                      // of the file and the indexes, on `local`
  bool numbered = false;                   // keys are numbers of rows, not names of pictures
  std::function<void()> progress = [] {};  // after each row
};

// Indexes of training, validation and test, with the keys and classes that training on the files
// has; null where there are no files for one. Those that an
// earlier call has finished in the folder are taken as they are. INVALID_ARGUMENT naming the file
// that has no pictures or other classes, and where two have one name: then `numbered` helps.
// CANCELLED; the errors of both file systems.
absl::StatusOr<std::array<std::unique_ptr<SampleIndex>, 3>> SpoolParquet(
    FileSystem& data, FileSystem& local, const FoundData& found, const ParquetSpooling& spooling);

}  // namespace muster::worker
