#include "worker/data/csv/csv_records.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";  // some programs begin UTF-8 with it

}  // namespace

CsvRecords::CsvRecords(FileSystem& fs, const std::string& path, char delimiter, BlockHasher& hasher)
    : fs_(fs), path_(path), delimiter_(delimiter), hasher_(hasher) {}

absl::Status CsvRecords::Bad(absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(path_, ":", record_line_, ": ", what));
}

absl::Status CsvRecords::Fill() {
  const bool first = offset_ == 0;
  piece_.resize(piece_bytes_);
  piece_bytes_ = std::min(2 * piece_bytes_, kMostPieceBytes);
  at_ = 0;
  size_t filled = 0;
  while (filled < piece_.size()) {
    MUSTER_ASSIGN_OR_RETURN(
        const uint64_t got,
        fs_.ReadAt(path_, offset_ + filled, piece_.data() + filled, piece_.size() - filled));
    if (got == 0) break;
    filled += got;
  }
  piece_.resize(filled);
  offset_ += filled;
  at_end_ = filled == 0;
  hasher_.Update(piece_);
  if (first && absl::StartsWith(piece_, kByteOrderMark)) at_ = kByteOrderMark.size();
  return absl::OkStatus();
}

absl::StatusOr<int> CsvRecords::Peek() {
  while (at_ == piece_.size()) {
    if (at_end_) return kEnd;
    MUSTER_RETURN_IF_ERROR(Fill());
  }
  return static_cast<uint8_t>(piece_[at_]);
}

absl::Status CsvRecords::Add(std::string& field, absl::string_view bytes) {
  record_bytes_ += bytes.size();
  if (record_bytes_ > kMostCsvRecordBytes) {
    return Bad(absl::StrCat("a record has more than ", kMostCsvRecordBytes, " bytes"));
  }
  field.append(bytes.data(), bytes.size());
  return absl::OkStatus();
}

// Takes bytes up to what ends a field, of which there is a piece at a time.
absl::Status CsvRecords::ReadPlain(std::string& field) {
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const int next, Peek());
    if (next == kEnd) return absl::OkStatus();
    const size_t begin = at_;
    while (at_ < piece_.size() && piece_[at_] != delimiter_ && piece_[at_] != '\n' &&
           piece_[at_] != '"') {
      ++at_;
    }
    MUSTER_RETURN_IF_ERROR(Add(field, absl::string_view(piece_).substr(begin, at_ - begin)));
    if (at_ == piece_.size()) continue;
    if (piece_[at_] == '"') return Bad("a quote stands in a field that does not begin with one");
    if (piece_[at_] == '\n' && absl::EndsWith(field, "\r")) field.pop_back();
    return absl::OkStatus();
  }
}

// Behind the first quote.
absl::Status CsvRecords::ReadQuoted(std::string& field) {
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const int next, Peek());
    if (next == kEnd) return Bad("a quote is not closed");
    const size_t begin = at_;
    while (at_ < piece_.size() && piece_[at_] != '"') line_ += piece_[at_++] == '\n' ? 1 : 0;
    MUSTER_RETURN_IF_ERROR(Add(field, absl::string_view(piece_).substr(begin, at_ - begin)));
    if (at_ == piece_.size()) continue;
    ++at_;
    MUSTER_ASSIGN_OR_RETURN(const int behind, Peek());
    if (behind != '"') break;  // the closing one
    MUSTER_RETURN_IF_ERROR(Add(field, "\""));
    ++at_;
  }
  MUSTER_ASSIGN_OR_RETURN(int next, Peek());
  if (next == '\r') {
    ++at_;
    MUSTER_ASSIGN_OR_RETURN(next, Peek());
    if (next != '\n' && next != kEnd) return Bad("something stands behind a closing quote");
  }
  if (next != kEnd && next != '\n' && next != static_cast<uint8_t>(delimiter_)) {
    return Bad("something stands behind a closing quote");
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> CsvRecords::EndField() {
  MUSTER_ASSIGN_OR_RETURN(const int next, Peek());
  if (next == kEnd) return false;
  ++at_;
  if (next != '\n') return true;
  ++line_;
  return false;
}

// True: there was one.
absl::StatusOr<bool> CsvRecords::SkipEmptyLines() {
  bool skipped = false;
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(int next, Peek());
    if (next == '\r') {
      ++at_;
      MUSTER_ASSIGN_OR_RETURN(next, Peek());
      if (next != '\n') return Bad("a carriage return stands alone");
    }
    if (next != '\n') return skipped;
    ++at_;
    ++line_;
    skipped = true;
  }
}

absl::StatusOr<bool> CsvRecords::Next(std::vector<std::string>& fields) {
  fields.clear();
  record_line_ = line_;
  record_bytes_ = 0;
  MUSTER_ASSIGN_OR_RETURN(const bool empty, SkipEmptyLines());
  MUSTER_ASSIGN_OR_RETURN(const int first, Peek());
  if (first == kEnd) return false;
  if (empty) return Bad("the line is empty, but others follow");
  for (bool more = true; more;) {
    if (fields.size() == kMostCsvColumns) {
      return Bad(absl::StrCat("more than ", kMostCsvColumns, " columns"));
    }
    std::string& field = fields.emplace_back();
    MUSTER_ASSIGN_OR_RETURN(const int next, Peek());
    if (next == '"') {
      ++at_;
      MUSTER_RETURN_IF_ERROR(ReadQuoted(field));
    } else {
      MUSTER_RETURN_IF_ERROR(ReadPlain(field));
    }
    MUSTER_ASSIGN_OR_RETURN(more, EndField());
  }
  return true;
}

}  // namespace muster::worker
