// Prints the rows of a Parquet file for parquet_against_pyarrow.py: one line a row, one word a
// value. Values in place are read from there a second time.
#include <stdio.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "worker/data/parquet/parquet_file.h"

namespace {

using ::muster::worker::ParquetColumn;
using ::muster::worker::ParquetFile;
using ::muster::worker::ParquetType;
using ::muster::worker::ParquetValue;

std::string Word(const ParquetColumn& column, const ParquetValue& value) {
  if (value.is_null) return "null";
  switch (column.type) {
    case ParquetType::kFloat:
    case ParquetType::kDouble:
      return absl::StrFormat("%.17g", value.real);
    case ParquetType::kByteArray:
    case ParquetType::kFixedLenByteArray:
      return absl::StrCat("x", absl::BytesToHexString(value.bytes));
    default:
      return absl::StrCat(value.integer);
  }
}

absl::Status Print(const std::string& path) {
  muster::FileSystem& fs = muster::PosixFileSystem();
  const auto file = ParquetFile::Open(fs, path);
  if (!file.ok()) return file.status();
  std::vector<size_t> places;
  for (size_t i = 0; i < file->columns().size(); ++i) {
    if (file->columns()[i].max_repetition_level == 0) places.push_back(i);
  }
  int64_t in_place = 0;
  absl::Status read = file->ForEachRow(places, [&](int64_t, absl::Span<const ParquetValue> row) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&line, i == 0 ? "" : " ", Word(file->columns()[places[i]], row[i]));
      if (row[i].file_offset == ParquetValue::kNowhere) continue;
      ++in_place;
      std::string again(row[i].bytes.size(), '\0');
      const auto got = fs.ReadAt(path, row[i].file_offset, again.data(), again.size());
      if (!got.ok() || *got != again.size() || again != row[i].bytes) {
        return absl::InternalError("a value does not lie where it is said to");
      }
    }
    ::puts(line.c_str());
    return absl::OkStatus();
  });
  if (read.ok()) ::fprintf(stderr, "%lld in place\n", static_cast<long long>(in_place));
  return read;
}

}  // namespace

int main(int argc, char** argv) {
  const absl::Status done =
      argc == 2 ? Print(argv[1]) : absl::InvalidArgumentError("usage: parquet_rows FILE");
  if (done.ok()) return 0;
  ::fprintf(stderr, "%s\n", done.ToString().c_str());
  return 1;
}
