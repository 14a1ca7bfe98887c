// The header of a NumPy file (.npy, versions 1 to 3): what the numbers behind it are.
//
// Used by the data sources. A pure parser of bytes from outside; it takes no more than its bounds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster::worker {

// A header may reach this far into its file.
inline constexpr uint64_t kMaxNpyHeaderBytes = 64 << 10;

struct NpyHeader {
  std::string type;  // little-endian or of one byte, such as "<u2", "|u1", "<f4"
  bool fortran_order = false;
  std::vector<int64_t> shape;
  uint64_t data_offset_bytes = 0;
};

// `start` is the beginning of the file: kMaxNpyHeaderBytes of it, or all where it has less.
// INVALID_ARGUMENT saying what is wrong, without the file's name.
absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view start);

}  // namespace muster::worker
