// The footer of a Parquet file: a pure parser of bytes from outside, used by parquet_file.cc.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/parquet/parquet_types.h"

namespace muster::worker {

// The last bytes of a file: the footer's size and the magic number.
inline constexpr uint64_t kParquetTailBytes = 8;

// The bytes of the footer before the tail. INVALID_ARGUMENT, without the file's name, when these
// are not the last kParquetTailBytes of a Parquet file of `file_bytes`, or its footer is encrypted.
absl::StatusOr<uint64_t> ParseParquetTail(absl::string_view tail, uint64_t file_bytes);

// `bytes` are the footer, which begins at `data_end` in its file: every column chunk lies before
// it. INVALID_ARGUMENT, without the file's name, saying what is wrong; UNIMPLEMENTED naming what is
// not read: a codec, columns in other files, encryption.
absl::StatusOr<ParquetFooter> ParseParquetFooter(absl::string_view bytes, uint64_t data_end);

}  // namespace muster::worker
