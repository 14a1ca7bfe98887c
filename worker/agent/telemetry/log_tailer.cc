#include "worker/agent/telemetry/log_tailer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"

namespace muster::worker {
namespace {

constexpr int kRecordsPerPump = 16;

}  // namespace

absl::StatusOr<bool> LogTailer::Pump(bool final) {
  MUSTER_ASSIGN_OR_RETURN(const bool more_stdout, PumpStream(/*is_stderr=*/false, final));
  MUSTER_ASSIGN_OR_RETURN(const bool more_stderr, PumpStream(/*is_stderr=*/true, final));
  return more_stdout || more_stderr;
}

std::optional<std::array<uint64_t, 2>> LogTailer::WrittenBytes() const {
  std::array<uint64_t, 2> written = {};
  for (const bool is_stderr : {false, true}) {
    const absl::StatusOr<RankFile> file = Open(is_stderr, O_RDONLY);
    const bool capped = spool_.LogMark(key_, is_stderr) >= max_stream_bytes_;
    if (absl::IsNotFound(file.status())) continue;
    if (!file.ok() || capped || file->size >= max_stream_bytes_) return std::nullopt;
    written[is_stderr] = file->size;
  }
  return written;
}

std::string LogTailer::Path(bool is_stderr) const {
  return absl::StrCat(folder_, "/", is_stderr ? kStderrFile : kStdoutFile);
}

absl::StatusOr<RankFile> LogTailer::Open(bool is_stderr, int flags) const {
  return OpenRankFile(folder_, is_stderr ? kStderrFile : kStdoutFile, flags);
}

absl::Status LogTailer::Append(bool is_stderr, const RankFile& file, absl::string_view text) {
  v1::LogRecord record;
  SetKey(key_, record);
  record.set_is_stderr(is_stderr);
  record.set_offset(spool_.LogMark(key_, is_stderr));
  record.set_text(text.data(), text.size());
  record.set_written_ms(file.written_ms);
  return spool_.Append(record);
}

absl::StatusOr<bool> LogTailer::PumpStream(bool is_stderr, bool final) {
  std::string buffer(kMaxRecordBytes, '\0');
  for (int i = 0; i < kRecordsPerPump; ++i) {
    const uint64_t offset = spool_.LogMark(key_, is_stderr);
    if (offset >= max_stream_bytes_) {
      MUSTER_RETURN_IF_ERROR(PumpCapped(is_stderr, final));
      return false;
    }
    const absl::StatusOr<RankFile> file = Open(is_stderr, O_RDONLY);
    if (absl::IsNotFound(file.status())) return false;
    if (!file.ok()) return file.status();
    // What is written after the file's time was read has a later one: the next record takes it.
    const uint64_t known = file->size > offset ? file->size - offset : 0;
    MUSTER_ASSIGN_OR_RETURN(const uint64_t got, ReadAt(*file, offset, buffer.data(),
                                                       std::min<uint64_t>(known, buffer.size())));
    absl::string_view text = absl::string_view(buffer).substr(0, got);
    const size_t newline = text.rfind('\n');
    if (newline != text.npos) {
      text = text.substr(0, newline + 1);
    } else if (!final && text.size() < kMaxRecordBytes) {
      return false;  // a line that is still being written
    }
    if (text.empty()) return false;
    if (offset + text.size() < max_stream_bytes_) {
      MUSTER_RETURN_IF_ERROR(Append(is_stderr, *file, text));
      continue;
    }
    const std::string note =
        absl::StrCat(text.substr(0, max_stream_bytes_ - offset),
                     "\n[muster: ", is_stderr ? "standard error" : "standard output", " of rank ",
                     key_.rank, " has passed ", HumanBytes(static_cast<double>(max_stream_bytes_)),
                     "; of the rest only the end is kept, and shown when the rank is over]\n");
    MUSTER_RETURN_IF_ERROR(Append(is_stderr, *file, note));
  }
  return true;
}

absl::Status LogTailer::PumpCapped(bool is_stderr, bool final) {
  const absl::StatusOr<RankFile> file = Open(is_stderr, O_RDONLY);
  if (absl::IsNotFound(file.status())) return absl::OkStatus();
  if (!file.ok()) return file.status();
  if (!final) {
    if (file->size <= kMaxCappedFileBytes) return absl::OkStatus();
    MUSTER_ASSIGN_OR_RETURN(const RankFile writable, Open(is_stderr, O_WRONLY));
    // Who appends to it goes on at the new end.
    if (::ftruncate(writable.fd.get(), 0) == 0) return absl::OkStatus();
    return absl::UnavailableError(
        absl::StrCat("cannot empty ", Path(is_stderr), ": ", ::strerror(errno)));
  }
  if (end_taken_[is_stderr]) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadUntaken(*file));
  if (!text.empty()) {
    MUSTER_RETURN_IF_ERROR(Append(is_stderr, *file, absl::StrCat("[muster: its end]\n", text)));
  }
  end_taken_[is_stderr] = true;
  return absl::OkStatus();
}

// What a file that was never emptied holds before the bound was taken before.
absl::StatusOr<std::string> LogTailer::ReadUntaken(const RankFile& file) const {
  const uint64_t unread_from = file.size >= max_stream_bytes_ ? max_stream_bytes_ : 0;
  return ReadEnd(file, std::min<uint64_t>(file.size - unread_from, kMaxRecordBytes / 2));
}

}  // namespace muster::worker
