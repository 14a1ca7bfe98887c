// Loads tensors of a checkpoint that FindCheckpoint (common/ckpt/checkpoint_finder.h) has verified.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "worker/checkpoint/named_tensor.h"

namespace muster::worker {

// Copies the tensors of one safetensors file into `targets`, in place, whatever device they are on.
// Names (or the targets' `or_else`), shapes and types must match exactly: FAILED_PRECONDITION lists
// what is missing, unexpected or different, and then nothing was copied. Else the reader's codes.
// `got_on` is called after each tensor.
absl::Status LoadTensors(FileSystem& fs, const std::string& file, const NamedTensors& targets,
                         const std::function<void()>& got_on = nullptr);

// All tensors of one safetensors file, in host memory, by name. The reader's codes.
absl::StatusOr<NamedTensors> ReadTensors(FileSystem& fs, const std::string& file);

// state.json of the checkpoint folder `path`, as it was given to the saver.
absl::StatusOr<std::string> LoadStateJson(FileSystem& fs, const std::string& path);

}  // namespace muster::worker
