#include "worker/data/index/parquet_rows.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/formats/sample_names.h"

namespace muster::worker {

absl::Status ForEachParquetRow(
    FileSystem& fs, const std::string& path, const ParquetRowsOptions& options,
    std::vector<std::string>& classes,
    absl::FunctionRef<absl::Status(const std::string& key, const ImageRow& row)> add) {
  MUSTER_ASSIGN_OR_RETURN(const ParquetFile file, ParquetFile::Open(fs, path));
  MUSTER_ASSIGN_OR_RETURN(const ImageColumns columns, FindImageColumns(file));
  if (classes.empty()) classes = columns.classes;
  if (!columns.classes.empty() && columns.classes != classes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " names other classes than the files before it, or in another order"));
  }
  const std::string name = path.substr(path.rfind('/') + 1);
  return ForEachImage(file, columns, [&](const ImageRow& row) {
    std::string key;
    if (!options.numbered && row.path.find('/') != absl::string_view::npos)
      key = std::string(NameOf(row.path).key);
    if (key.empty()) key = NumberedKey(name, static_cast<uint64_t>(row.row));
    return add(key, row);
  });
}

}  // namespace muster::worker
