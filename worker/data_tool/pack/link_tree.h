// A tree of links that names the sets of an image folder, whose pictures stay where they are.
//
//   OUT/train/CLASS/NAME.jpg -> PATH/CLASS/NAME.jpg, OUT/validation/..., OUT/test/...
//
// Used by `muster-data split`. For local data: links are nothing that an object store has. One
// thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "common/object_store/cache/any_file_system.h"

namespace muster::worker {

struct SplitRequest {
  std::string path;
  std::string out;
  double validation = 0, test = 0;  // shares of each class
  uint64_t seed = 0;
  std::function<void(uint64_t samples)> index_progress = [](uint64_t) {};
  std::function<void()> progress = [] {};  // after each link
};

// Pictures of training, validation and test. OUT appears when it is whole. ALREADY_EXISTS: it is
// there; FAILED_PRECONDITION: the data are no image folder (pack --validation splits others), or
// name their sets already; CANCELLED; else the codes of OpenOrMakeIndexes and of FileSystem.
absl::StatusOr<std::array<uint64_t, 3>> SplitFolder(AnyFileSystem& data, FileSystem& local,
                                                    const SplitRequest& request);

}  // namespace muster::worker
