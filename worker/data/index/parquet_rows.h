// The pictures of Parquet files as samples: their keys, and the classes of all files of a data set.
//
// Used where the files are indexed and where they are packed, so that both have the same samples.
#pragma once

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/fs/file_system.h"
#include "worker/data/parquet/image_rows.h"

namespace muster::worker {

struct ParquetRowsOptions {
  bool numbered = false;  // keys are numbers of rows, whatever the pictures are called
};

// Calls `add` for each picture of the file, with its key: its path where that has a folder (names
// without one come again in each class), else the file's name and the row. `classes`: as the files
// before name them; empty: none does, and this one may. INVALID_ARGUMENT where the file names other
// classes, or in another order; else as ParquetFile::Open, FindImageColumns and ForEachImage.
absl::Status ForEachParquetRow(
    FileSystem& fs, const std::string& path, const ParquetRowsOptions& options,
    std::vector<std::string>& classes,
    absl::FunctionRef<absl::Status(const std::string& key, const ImageRow& row)> add);

}  // namespace muster::worker
