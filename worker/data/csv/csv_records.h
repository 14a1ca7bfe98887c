// The records of a CSV file (RFC 4180), read piece by piece: fields between commas, in quotes where
// they hold a comma, a quote (doubled) or the end of a line.
//
// Used by csv_table.cc. Bytes from outside: no more is kept than one record, within bounds. One
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/ckpt/block_hasher.h"
#include "common/fs/file_system.h"

namespace muster::worker {

inline constexpr size_t kMostCsvRecordBytes = 16u << 20;
inline constexpr size_t kMostCsvColumns = 1u << 16;

class CsvRecords {
 public:
  // All must outlive this. The hasher is given the bytes that are read: in the end, the file's.
  CsvRecords(FileSystem& fs, const std::string& path, char delimiter, BlockHasher& hasher);

  // The fields of the next record, without their quotes; false at the end of the file. Lines end
  // with LF or CRLF; empty ones are passed over where nothing follows them. INVALID_ARGUMENT naming
  // file and line when quotes do not fit, a line is empty, or a record is beyond the bounds; else
  // fs's codes. Not to be called again after an error.
  absl::StatusOr<bool> Next(std::vector<std::string>& fields);

  // Where the last record begins, from 1.
  int64_t line() const { return record_line_; }
  // Something of the record at line().
  absl::Status Bad(absl::string_view what) const;

 private:
  static constexpr int kEnd = -1;
  static constexpr uint64_t kFirstPieceBytes = 16u << 10;  // each has twice as many as the last
  static constexpr uint64_t kMostPieceBytes = 4u << 20;

  // The next byte without taking it, or kEnd.
  absl::StatusOr<int> Peek();
  absl::Status Fill();
  absl::Status ReadQuoted(std::string& field);
  absl::Status ReadPlain(std::string& field);
  // Takes the end of a field. True: the record goes on.
  absl::StatusOr<bool> EndField();
  absl::StatusOr<bool> SkipEmptyLines();
  absl::Status Add(std::string& field, absl::string_view bytes);

  FileSystem& fs_;
  const std::string& path_;
  const char delimiter_;
  BlockHasher& hasher_;
  std::string piece_;
  uint64_t piece_bytes_ = kFirstPieceBytes;  // of the next piece
  size_t at_ = 0;                            // in piece_
  uint64_t offset_ = 0;                      // in the file, behind piece_
  bool at_end_ = false;                      // of the file
  int64_t line_ = 1;
  int64_t record_line_ = 1;
  size_t record_bytes_ = 0;
};

}  // namespace muster::worker
