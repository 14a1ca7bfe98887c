// Decompresses the pages of a Parquet file: snappy, gzip and zstd.
//
// Used by column_reader.cc. Any thread. The streams are bytes from outside: one gives no more than
// it was said to give, and no room is made for more than its bytes can give.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/data/parquet/parquet_types.h"

namespace muster::worker {

// Replaces `out` with `size` bytes. INVALID_ARGUMENT when `stored` holds anything else;
// UNIMPLEMENTED naming the codec when it is not read.
absl::Status DecompressPage(ParquetCodec codec, absl::string_view stored, uint64_t size,
                            std::string& out);

}  // namespace muster::worker
