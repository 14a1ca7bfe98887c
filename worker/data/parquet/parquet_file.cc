#include "worker/data/parquet/parquet_file.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "worker/data/parquet/column_reader.h"
#include "worker/data/parquet/footer.h"

namespace muster::worker {
namespace {

constexpr size_t kMostNamesInError = 40;

absl::Status OfFile(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, " ", status.message()));
}

// [offset, offset + size) of the file.
absl::StatusOr<std::string> ReadPart(FileSystem& fs, const std::string& path, uint64_t offset,
                                     uint64_t size) {
  std::string part(size, '\0');
  for (uint64_t filled = 0; filled < size;) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t got,
                            fs.ReadAt(path, offset + filled, part.data() + filled, size - filled));
    if (got == 0) return absl::DataLossError(absl::StrCat(path, " ended while it was read"));
    filled += got;
  }
  return part;
}

}  // namespace

ParquetFile::ParquetFile(FileSystem& fs, std::string path, const ParquetLimits& limits,
                         ParquetFooter footer)
    : fs_(&fs), path_(std::move(path)), limits_(limits), footer_(std::move(footer)) {
  int64_t row = 0;
  for (const ParquetRowGroup& group : footer_.row_groups) {
    first_rows_.push_back(row);
    row += group.rows;
  }
}

absl::StatusOr<ParquetFile> ParquetFile::Open(FileSystem& fs, std::string path,
                                              const ParquetLimits& limits) {
  MUSTER_ASSIGN_OR_RETURN(const uint64_t file_bytes, fs.FileSize(path));
  const uint64_t tail_bytes = std::min(file_bytes, kParquetTailBytes);
  const uint64_t tail_at = file_bytes - tail_bytes;
  MUSTER_ASSIGN_OR_RETURN(const std::string tail, ReadPart(fs, path, tail_at, tail_bytes));
  const auto footer_bytes = ParseParquetTail(tail, file_bytes);
  if (!footer_bytes.ok()) return OfFile(path, footer_bytes.status());
  if (*footer_bytes > limits.footer_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(path, " has a footer of ", *footer_bytes,
                                                     " bytes, at most ", limits.footer_bytes,
                                                     " are read: write it with larger row groups"));
  }
  const uint64_t data_end = tail_at - *footer_bytes;
  MUSTER_ASSIGN_OR_RETURN(const std::string bytes, ReadPart(fs, path, data_end, *footer_bytes));
  auto footer = ParseParquetFooter(bytes, data_end);
  if (!footer.ok()) return OfFile(path, footer.status());
  return ParquetFile(fs, std::move(path), limits, *std::move(footer));
}

absl::StatusOr<size_t> ParquetFile::FindColumn(absl::string_view name) const {
  std::vector<absl::string_view> names;
  for (size_t i = 0; i < columns().size(); ++i) {
    if (columns()[i].name == name) return i;
    if (names.size() < kMostNamesInError) names.push_back(columns()[i].name);
  }
  return absl::NotFoundError(absl::StrCat(path_, " has no column ", name, "; it has ",
                                          absl::StrJoin(names, ", "),
                                          names.size() < columns().size() ? " and others" : ""));
}

std::optional<absl::string_view> ParquetFile::KeyValue(absl::string_view key) const {
  for (const auto& [name, value] : footer_.key_values) {
    if (name == key) return absl::string_view(value);
  }
  return std::nullopt;
}

absl::Status ParquetFile::ForEachRow(const std::vector<size_t>& columns, OnRow on_row) const {
  for (size_t i = 0; i < row_groups().size(); ++i) {
    MUSTER_RETURN_IF_ERROR(ForEachRowOf(i, columns, on_row));
  }
  return absl::OkStatus();
}

absl::Status ParquetFile::ForEachRowOf(size_t row_group, const std::vector<size_t>& columns,
                                       OnRow on_row) const {
  MUSTER_CHECK(row_group < row_groups().size() && !columns.empty(), "there is what is asked for");
  const ParquetRowGroup& group = row_groups()[row_group];
  std::vector<std::unique_ptr<ColumnReader>> readers;
  for (const size_t place : columns) {
    MUSTER_CHECK(place < footer_.columns.size(), "a column is one of the file's");
    const ParquetColumn& column = footer_.columns[place];
    if (column.max_repetition_level > 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          path_, ": column ", column.name, " is a list; only columns of one value a row are read"));
    }
    const ParquetColumnChunk& chunk = group.chunks[place];
    if (chunk.values != group.rows) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": column ", column.name, " has ",
                                                     chunk.values, " values in row group ",
                                                     row_group, " of ", group.rows, " rows"));
    }
    readers.push_back(std::make_unique<ColumnReader>(*fs_, path_, column, chunk, limits_));
  }
  std::vector<ParquetValue> values(columns.size());
  for (int64_t row = 0; row < group.rows; ++row) {
    for (size_t i = 0; i < readers.size(); ++i) {
      MUSTER_RETURN_IF_ERROR(readers[i]->Next(values[i]));
    }
    MUSTER_RETURN_IF_ERROR(on_row(first_rows_[row_group] + row, values));
  }
  return absl::OkStatus();
}

}  // namespace muster::worker
