// What a Parquet file says of itself: its columns, and where their values lie. Plain data, with the
// numbers and names of https://github.com/apache/parquet-format (parquet.thrift).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster::worker {

enum class ParquetType : uint8_t {
  kBoolean = 0,
  kInt32 = 1,
  kInt64 = 2,
  kInt96 = 3,  // not read
  kFloat = 4,
  kDouble = 5,
  kByteArray = 6,
  kFixedLenByteArray = 7,
};
const char* ParquetTypeName(ParquetType type);

enum class ParquetCodec : uint8_t {
  kUncompressed = 0,
  kSnappy = 1,
  kGzip = 2,
  kLzo = 3,     // not read
  kBrotli = 4,  // not read
  kLz4 = 5,     // not read
  kZstd = 6,
  kLz4Raw = 7,  // not read
};

enum class ParquetEncoding : uint8_t {
  kPlain = 0,
  kPlainDictionary = 2,
  kRle = 3,
  kBitPacked = 4,  // not read
  kDeltaBinaryPacked = 5,
  kDeltaLengthByteArray = 6,
  kDeltaByteArray = 7,
  kRleDictionary = 8,
  kByteStreamSplit = 9,  // not read
};

struct ParquetColumn {
  std::string name;  // with the structs around it: "image.bytes"
  ParquetType type = ParquetType::kByteArray;
  int64_t type_length = 0;  // of kFixedLenByteArray: bytes of a value
  // How many of the column and the structs around it may be missing; a value is there when all are.
  int max_definition_level = 0;
  // How many of them are lists. Only columns with 0 are read.
  int max_repetition_level = 0;
};

// The pages of one column in one row group.
struct ParquetColumnChunk {
  ParquetCodec codec = ParquetCodec::kUncompressed;
  int64_t values = 0;   // missing ones among them
  uint64_t offset = 0;  // of the first page in the file, in bytes
  uint64_t size = 0;    // of all pages with their headers, in bytes
};

struct ParquetRowGroup {
  int64_t rows = 0;
  std::vector<ParquetColumnChunk> chunks;  // of each column
};

struct ParquetFooter {
  int64_t rows = 0;
  std::vector<ParquetColumn> columns;  // the leaves of the schema
  std::vector<ParquetRowGroup> row_groups;
  std::vector<std::pair<std::string, std::string>> key_values;  // in the file's order
};

// One value of one row.
struct ParquetValue {
  static constexpr uint64_t kNowhere = ~uint64_t{0};

  bool is_null = true;
  int64_t integer = 0;      // of kBoolean (0 or 1), kInt32 and kInt64
  double real = 0;          // of kFloat and kDouble
  absl::string_view bytes;  // of kByteArray and kFixedLenByteArray
  // Where `bytes` lie in the file, when they lie there as they are.
  uint64_t file_offset = kNowhere;
};

// What a file may make its reader keep in memory.
struct ParquetLimits {
  uint64_t footer_bytes = 64u << 20;
  // One page, as it is stored and as it is decompressed. Of each column that is read a dictionary
  // and a page are in memory, both decompressed, and the page as it is stored.
  uint64_t page_bytes = 1u << 30;
  uint64_t dictionary_values = 1u << 24;  // of one column in one row group
};

}  // namespace muster::worker
