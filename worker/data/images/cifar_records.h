// The binary files of CIFAR-10 and CIFAR-100 (Krizhevsky 2009) as records: which of the two lies in
// a folder, and the bytes of its files, checked.
//
// Used by cifar.cc, which makes tensors of them. Needs nothing of torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/ckpt/block_hasher.h"
#include "common/fs/file_system.h"

namespace muster::worker {

inline constexpr size_t kCifarPictureBytes = 3 * 32 * 32;

// One of the two sets as its files have it.
struct CifarEdition {
  const char* name;
  std::vector<const char*> train_files;
  const char* test_file;
  const char* names_file;  // holds those of the classes, a line each
  int64_t classes;
  size_t label_bytes;  // the last of them is the class; CIFAR-100 has the coarse one before it

  size_t record_bytes() const { return label_bytes + kCifarPictureBytes; }
};
CifarEdition Cifar10();
CifarEdition Cifar100();

// NOT_FOUND: neither lies there; else fs's codes.
absl::StatusOr<CifarEdition> CifarEditionIn(FileSystem& fs, const std::string& folder);

// The records of some files, one after the other: whole ones, one at least from each file, and each
// of a class that there is. `hasher` takes in the files' bytes. INVALID_ARGUMENT naming the file
// that is no such file; else fs's codes.
absl::StatusOr<std::string> ReadCifarRecords(FileSystem& fs, const CifarEdition& edition,
                                             const std::string& folder,
                                             const std::vector<const char*>& files,
                                             BlockHasher& hasher);

// The names of the classes; none where the file that comes with the records is not there.
// INVALID_ARGUMENT naming the file that has another number of lines; else fs's codes.
absl::StatusOr<std::vector<std::string>> ReadCifarClassNames(FileSystem& fs,
                                                             const CifarEdition& edition,
                                                             const std::string& folder);

}  // namespace muster::worker
