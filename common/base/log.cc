#include "common/base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/utf8.h"

namespace muster {
namespace {

// A longer value is cut: a log line is for people, and what comes from outside has no other bound
// here.
constexpr size_t kMaxValueBytes = 4096;

std::atomic<const char*> g_program{nullptr};

LogLevel LevelFromEnvironment() {
  const char* name = std::getenv("MUSTER_LOG_LEVEL");
  if (name == nullptr) return LogLevel::kInfo;
  if (std::strcmp(name, "debug") == 0) return LogLevel::kDebug;
  if (std::strcmp(name, "warning") == 0) return LogLevel::kWarning;
  if (std::strcmp(name, "error") == 0) return LogLevel::kError;
  return LogLevel::kInfo;
}

std::atomic<LogLevel>& Threshold() {
  static std::atomic<LogLevel> threshold{LevelFromEnvironment()};
  return threshold;
}

const char* Name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "?";
}

void AppendValue(std::string& line, absl::string_view value) {
  const bool cut = value.size() > kMaxValueBytes;
  const std::string clean = cut || !IsUtf8(value) ? CutUtf8(value, kMaxValueBytes) : "";
  if (!clean.empty()) value = clean;
  const bool plain = !value.empty() && value.find_first_of(" \"=\\\n\r\t") == value.npos;
  if (plain) {
    line.append(value.data(), value.size());
  } else {
    line += '"';
    for (const char c : value) {
      switch (c) {
        case '"':
          line += "\\\"";
          break;
        case '\\':
          line += "\\\\";
          break;
        case '\n':
          line += "\\n";
          break;
        case '\r':
          line += "\\r";
          break;
        case '\t':
          line += "\\t";
          break;
        default:
          line += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
      }
    }
    line += '"';
  }
  if (cut) line += "...";
}

}  // namespace

LogField::LogField(absl::string_view k, double v) : key(k), value(absl::StrCat(v)) {}

std::string FormatLogLine(LogLevel level, absl::string_view event,
                          std::initializer_list<LogField> fields) {
  std::string line = absl::StrCat("level=", Name(level));
  if (const char* program = g_program.load()) absl::StrAppend(&line, " program=", program);
  line += " event=";
  AppendValue(line, event);
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", field.key, "=");
    AppendValue(line, field.value);
  }
  line += '\n';
  return line;
}

void Log(LogLevel level, absl::string_view event, std::initializer_list<LogField> fields) {
  if (level < Threshold().load(std::memory_order_relaxed)) return;
  const std::string line = absl::StrCat(
      "ts=", absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone()), " ",
      FormatLogLine(level, event, fields));
  // A log that cannot be written has nobody left to tell.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

void SetLogProgram(const char* name) { g_program.store(name); }
void SetLogLevel(LogLevel level) { Threshold().store(level); }

}  // namespace muster
