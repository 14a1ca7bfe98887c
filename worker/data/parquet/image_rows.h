// Pictures and their classes in a Parquet file as Hugging Face's data sets have them: a struct of
// `bytes` (a JPEG or another picture's file) and `path` (its name), a whole number as the label,
// and in the footer, under "huggingface", JSON that tells which columns these are and names the
// classes (https://huggingface.co/docs/datasets/about_dataset_features).
//
// Used by the formats of data sets. Pure but for the file that is read; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/parquet/parquet_file.h"

namespace muster::worker {

struct ImageColumns {
  size_t bytes = 0;                  // places in the file's columns
  std::optional<size_t> path;        // the file may not name its pictures
  std::optional<size_t> label;       // or not class them
  std::vector<std::string> classes;  // in the order of their numbers; empty: it does not say
};

struct ImageRow {
  int64_t row = 0;  // of the file
  absl::string_view bytes;
  // Where they lie in the file; ParquetValue::kNowhere when they are compressed there.
  uint64_t file_offset = ParquetValue::kNowhere;
  absl::string_view path;  // empty: none
  int64_t label = -1;      // -1: none
};

// Names of columns, without ".bytes"; empty: what the JSON says, else the one picture that the
// schema has, and "label" where it is there.
struct ImageColumnNames {
  std::string image;
  std::string label;
};

// INVALID_ARGUMENT naming the file when it has no column of pictures, several of them, or one of
// another type; NOT_FOUND when a column that was named is not there.
absl::StatusOr<ImageColumns> FindImageColumns(const ParquetFile& file,
                                              const ImageColumnNames& names = {});

// INVALID_ARGUMENT naming file and row when a row has no picture or a class that is none; else what
// ParquetFile::ForEachRow or the callback returns.
absl::Status ForEachImage(const ParquetFile& file, const ImageColumns& columns,
                          absl::FunctionRef<absl::Status(const ImageRow&)> on_image);

}  // namespace muster::worker
