#include "worker/agent/log_tailer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/fs/empty_file.h"

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
    const absl::StatusOr<uint64_t> size = fs_.FileSize(Path(is_stderr));
    const bool capped = spool_.LogMark(key_, is_stderr) >= max_stream_bytes_;
    if (absl::IsNotFound(size.status())) continue;
    if (!size.ok() || capped || *size >= max_stream_bytes_) return std::nullopt;
    written[is_stderr] = *size;
  }
  return written;
}

std::string LogTailer::Path(bool is_stderr) const {
  return absl::StrCat(folder_, "/", is_stderr ? kStderrFile : kStdoutFile);
}

absl::Status LogTailer::Append(bool is_stderr, absl::string_view text) {
  v1::LogRecord record;
  SetKey(key_, record);
  record.set_is_stderr(is_stderr);
  record.set_offset(spool_.LogMark(key_, is_stderr));
  record.set_text(text.data(), text.size());
  return spool_.Append(record);
}

absl::StatusOr<bool> LogTailer::PumpStream(bool is_stderr, bool final) {
  const std::string path = Path(is_stderr);
  std::string buffer(kMaxRecordBytes, '\0');
  for (int i = 0; i < kRecordsPerPump; ++i) {
    const uint64_t offset = spool_.LogMark(key_, is_stderr);
    if (offset >= max_stream_bytes_) {
      MUSTER_RETURN_IF_ERROR(PumpCapped(is_stderr, final));
      return false;
    }
    const absl::StatusOr<uint64_t> got = fs_.ReadAt(path, offset, buffer.data(), buffer.size());
    if (absl::IsNotFound(got.status())) return false;
    if (!got.ok()) return got.status();
    absl::string_view text = absl::string_view(buffer).substr(0, *got);
    const size_t newline = text.rfind('\n');
    if (newline != text.npos) {
      text = text.substr(0, newline + 1);
    } else if (!final && text.size() < kMaxRecordBytes) {
      return false;  // a line that is still being written
    }
    if (text.empty()) return false;
    if (offset + text.size() < max_stream_bytes_) {
      MUSTER_RETURN_IF_ERROR(Append(is_stderr, text));
      continue;
    }
    const std::string note =
        absl::StrCat(text.substr(0, max_stream_bytes_ - offset),
                     "\n[muster: ", is_stderr ? "standard error" : "standard output", " of rank ",
                     key_.rank, " has passed ", HumanBytes(static_cast<double>(max_stream_bytes_)),
                     "; of the rest only the end is kept, and shown when the rank is over]\n");
    MUSTER_RETURN_IF_ERROR(Append(is_stderr, note));
  }
  return true;
}

absl::Status LogTailer::PumpCapped(bool is_stderr, bool final) {
  const std::string path = Path(is_stderr);
  if (!final) {
    const absl::StatusOr<uint64_t> size = fs_.FileSize(path);
    const bool large = size.ok() && *size > kMaxCappedFileBytes;
    return large ? EmptyFile(path) : absl::OkStatus();
  }
  if (end_taken_[is_stderr]) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadEnd(path));
  if (!text.empty()) {
    MUSTER_RETURN_IF_ERROR(Append(is_stderr, absl::StrCat("[muster: its end]\n", text)));
  }
  end_taken_[is_stderr] = true;
  return absl::OkStatus();
}

// What a file that was never emptied holds before the bound was taken before.
absl::StatusOr<std::string> LogTailer::ReadEnd(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const uint64_t size, fs_.FileSize(path));
  const uint64_t unread_from = size >= max_stream_bytes_ ? max_stream_bytes_ : 0;
  const uint64_t bytes = std::min<uint64_t>(size - unread_from, kMaxRecordBytes / 2);
  std::string text(bytes, '\0');
  MUSTER_ASSIGN_OR_RETURN(const uint64_t got,
                          fs_.ReadAt(path, size - bytes, text.data(), text.size()));
  text.resize(got);
  return text;
}

}  // namespace muster::worker
