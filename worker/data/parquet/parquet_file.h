// A Parquet file, read without Arrow: its columns, and its rows from front to back.
//
// Reads what Hugging Face's data sets and pandas write: columns of numbers, of text and of bytes,
// also in structs; pages of both versions; values plain, in dictionaries or as differences; pages
// uncompressed or in snappy, gzip or zstd. Not read: lists, INT96, the other codecs, encryption.
// Rows of a row group are read in lockstep, one page of each column in memory at a time (see
// ParquetLimits).
//
// Used by the formats of data sets. Immutable after its making, so any thread may read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/fs/file_system.h"
#include "worker/data/parquet/parquet_types.h"

namespace muster::worker {

class ParquetFile {
 public:
  // `row` counts through the whole file; `values` are those of the columns asked for, in their
  // order, and last until the callback returns. What it returns other than OK ends the reading.
  using OnRow = absl::FunctionRef<absl::Status(int64_t row, absl::Span<const ParquetValue> values)>;

  // Reads the footer. `fs` must outlive this. INVALID_ARGUMENT naming the file and what is wrong
  // with it, UNIMPLEMENTED what of it is not read, RESOURCE_EXHAUSTED what is beyond the limits;
  // else fs's codes.
  static absl::StatusOr<ParquetFile> Open(FileSystem& fs, std::string path,
                                          const ParquetLimits& limits = {});

  const std::string& path() const { return path_; }
  int64_t rows() const { return footer_.rows; }
  const std::vector<ParquetColumn>& columns() const { return footer_.columns; }
  const std::vector<ParquetRowGroup>& row_groups() const { return footer_.row_groups; }

  // The place of a column in columns(). NOT_FOUND naming the columns that are there.
  absl::StatusOr<size_t> FindColumn(absl::string_view name) const;
  // What the file's writer noted under this key, such as "huggingface".
  std::optional<absl::string_view> KeyValue(absl::string_view key) const;

  // All rows of the file, or of one row group. Requires places in columns() and row_groups().
  // INVALID_ARGUMENT naming the column when one is a list, or its pages are not as the format wants
  // them; DATA_LOSS when a page is damaged; else Open's codes.
  absl::Status ForEachRow(const std::vector<size_t>& columns, OnRow on_row) const;
  absl::Status ForEachRowOf(size_t row_group, const std::vector<size_t>& columns,
                            OnRow on_row) const;

 private:
  ParquetFile(FileSystem& fs, std::string path, const ParquetLimits& limits, ParquetFooter footer);

  FileSystem* fs_;
  std::string path_;
  ParquetLimits limits_;
  ParquetFooter footer_;
  std::vector<int64_t> first_rows_;  // of each row group
};

}  // namespace muster::worker
