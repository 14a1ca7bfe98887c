// A table of numbers and what is to be learnt of each row, from a CSV file with a header.
//
// Used by the sources of data. Any thread; the file is bytes from outside.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/ckpt/block_hasher.h"
#include "common/fs/file_system.h"

namespace muster::worker {

inline constexpr uint64_t kMostCsvBytes = uint64_t{16} << 30;
inline constexpr size_t kMostCsvClasses = 1u << 20;

enum class CsvTarget { kClass, kNumber };

struct CsvConfig {
  std::string target;                 // the column that is to be learnt
  std::vector<std::string> features;  // columns in their order; empty: all the others
  CsvTarget kind = CsvTarget::kClass;
  // Of another file, whose classes these are (its class_names); empty: as the file has them.
  std::vector<std::string> class_names;
  char delimiter = ',';
};

struct CsvTable {
  int64_t rows = 0;
  std::vector<std::string> feature_names;
  std::vector<float> features;  // [rows, features]
  // Of kClass, [rows]: the number of each row's class. Where all targets are whole numbers from 0
  // on, they are it; else names are numbered in the order of their bytes.
  std::vector<int64_t> labels;
  int64_t classes = 0;
  std::vector<std::string> class_names;  // empty where the targets are numbers
  std::vector<float> numbers;            // of kNumber, [rows]
};

// Reads the whole file; its bytes go to the hasher. NOT_FOUND naming a column that is not there and
// those that are. INVALID_ARGUMENT naming file, line and column when a value is missing, a feature
// is no finite number, a class is none of config.class_names, or the rows are not alike; when the
// file has no row, or more than kMostCsvBytes; or the delimiter cannot be one. Else fs's codes.
absl::StatusOr<CsvTable> ReadCsvTable(FileSystem& fs, const std::string& path,
                                      const CsvConfig& config, BlockHasher& hasher);

}  // namespace muster::worker
