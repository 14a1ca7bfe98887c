#include "worker/agent/log_tailer.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

constexpr int kRecordsPerPump = 16;

}  // namespace

absl::StatusOr<bool> LogTailer::Pump(bool final) {
  MUSTER_ASSIGN_OR_RETURN(const bool more_stdout, PumpStream(/*is_stderr=*/false, final));
  MUSTER_ASSIGN_OR_RETURN(const bool more_stderr, PumpStream(/*is_stderr=*/true, final));
  return more_stdout || more_stderr;
}

absl::StatusOr<bool> LogTailer::PumpStream(bool is_stderr, bool final) {
  const std::string path = absl::StrCat(folder_, "/", is_stderr ? kStderrFile : kStdoutFile);
  std::string buffer(kMaxRecordBytes, '\0');
  for (int i = 0; i < kRecordsPerPump; ++i) {
    const uint64_t offset = spool_.LogMark(key_, is_stderr);
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
    v1::LogRecord record;
    SetKey(key_, record);
    record.set_is_stderr(is_stderr);
    record.set_offset(offset);
    record.set_text(text.data(), text.size());
    MUSTER_RETURN_IF_ERROR(spool_.Append(record));
  }
  return true;
}

}  // namespace muster::worker
