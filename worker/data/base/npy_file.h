// Reads one array of NumPy's .npy format (versions 1 to 3) into a tensor of the same type.
//
// Used by the data sources. Object arrays, big-endian and Fortran order are refused: they name
// pickled code, or want a copy that NumPy makes better.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/ckpt/block_hasher.h"
#include "common/fs/file_system.h"

namespace muster::worker {

// The array, contiguous. `hasher` takes in the file's bytes. INVALID_ARGUMENT when the file is no
// array of numbers that torch has; RESOURCE_EXHAUSTED when it holds more than `max_bytes`; else
// fs's codes. uint16, uint32 and uint64 come as torch's types of these names.
absl::StatusOr<at::Tensor> ReadNpy(FileSystem& fs, const std::string& path, int64_t max_bytes,
                                   BlockHasher& hasher);

}  // namespace muster::worker
