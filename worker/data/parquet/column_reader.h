// The values of one column in one row group of a Parquet file, row by row.
//
// Used by parquet_file.cc. Holds one page and the dictionary in memory. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/fs/file_system.h"
#include "worker/data/parquet/file_window.h"
#include "worker/data/parquet/page_header.h"
#include "worker/data/parquet/parquet_types.h"
#include "worker/data/parquet/run_length.h"
#include "worker/data/parquet/value_decoder.h"

namespace muster::worker {

class ColumnReader {
 public:
  // Requires a column that is no list. All references must outlive this.
  ColumnReader(FileSystem& fs, const std::string& path, const ParquetColumn& column,
               const ParquetColumnChunk& chunk, const ParquetLimits& limits);
  ColumnReader(const ColumnReader&) = delete;
  ColumnReader& operator=(const ColumnReader&) = delete;

  // The next row's value, whose bytes last until the next call. INVALID_ARGUMENT naming file,
  // column and page when they are not as the format wants them; DATA_LOSS when a page's CRC is not
  // that of its bytes, or the file ended; UNIMPLEMENTED naming what is not read; RESOURCE_EXHAUSTED
  // beyond the limits; else fs's codes.
  absl::Status Next(ParquetValue& value);

 private:
  // Bytes of a page, and where they lie in the file when they do so as they are.
  struct PageBytes {
    absl::string_view bytes;
    uint64_t file_offset = ParquetValue::kNowhere;

    uint64_t OffsetOf(absl::string_view value) const;
  };

  absl::Status NextPage();
  absl::StatusOr<ParquetPageHeader> ReadHeader();
  absl::Status CheckPage(const ParquetPageHeader& header) const;
  absl::StatusOr<PageBytes> Unpack(const ParquetPageHeader& header, absl::string_view stored,
                                   uint64_t file_offset, std::string& buffer) const;
  absl::Status ReadDictionary(const ParquetPageHeader& header, absl::string_view stored,
                              uint64_t file_offset);
  absl::Status BeginPage(const ParquetPageHeader& header, absl::string_view stored,
                         uint64_t file_offset);
  absl::Status NextOfPage(ParquetValue& value);
  // `status` with the names of file, column and page.
  absl::Status Named(const absl::Status& status) const;

  const std::string& path_;
  const ParquetColumn& column_;
  const ParquetColumnChunk& chunk_;
  const ParquetLimits& limits_;
  const int level_bits_;
  FileWindow window_;
  uint64_t page_at_ = 0;  // where the current page's header begins
  uint64_t next_at_ = 0;  // the next page's

  bool has_dictionary_ = false;
  std::string dictionary_bytes_;
  ParquetDictionary dictionary_;

  std::string unpacked_;
  PageBytes page_;    // its values
  int64_t left_ = 0;  // of the page, missing ones among them
  RunLengthReader levels_;
  std::unique_ptr<ValueDecoder> values_;
};

}  // namespace muster::worker
