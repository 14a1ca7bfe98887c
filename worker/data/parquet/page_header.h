// The header before each page of a column: a pure parser of bytes from outside, used by
// column_reader.cc.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/parquet/parquet_types.h"

namespace muster::worker {

enum class ParquetPageType : uint8_t { kData = 0, kIndex = 1, kDictionary = 2, kDataV2 = 3 };

struct ParquetPageHeader {
  uint64_t header_bytes = 0;  // what the header itself takes; its page follows
  ParquetPageType type = ParquetPageType::kData;
  int64_t compressed_bytes = 0;
  int64_t uncompressed_bytes = 0;
  std::optional<uint32_t> crc;  // CRC-32 of the page as it is stored
  int64_t values = 0;           // missing ones among them
  ParquetEncoding encoding = ParquetEncoding::kPlain;
  // Of kDataV2: the levels come first and are not compressed.
  int64_t definition_level_bytes = 0;
  int64_t repetition_level_bytes = 0;
  bool is_compressed = true;
  // Of kData: how the definition levels are written.
  ParquetEncoding definition_level_encoding = ParquetEncoding::kRle;
};

// `start` begins with the header. OUT_OF_RANGE when it ends before the header does: more bytes are
// wanted. INVALID_ARGUMENT saying what is wrong.
absl::StatusOr<ParquetPageHeader> ParseParquetPageHeader(absl::string_view start);

}  // namespace muster::worker
