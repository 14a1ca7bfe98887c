// Structured logging to stderr, one line an event:
//   ts=2026-01-31T12:00:00.123Z level=info program=musterd event=job_placed job=42 workers="a b"
//
// Any thread may log; a line is written with one write(2), so lines never mix. Never pass a secret.
// Debian's spdlog does not compile beside torch's own fmt, hence a small logger of our own.
#pragma once

#include <concepts>
#include <initializer_list>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// One key=value of a log line. Keys are literals in snake_case; values are quoted when they need
// it.
struct LogField {
  template <std::integral T>
  LogField(absl::string_view k, T v) : key(k), value(std::to_string(v)) {}
  LogField(absl::string_view k, bool v) : key(k), value(v ? "true" : "false") {}
  LogField(absl::string_view k, double v);
  LogField(absl::string_view k, absl::string_view v) : key(k), value(v.data(), v.size()) {}
  LogField(absl::string_view k, const std::string& v) : key(k), value(v) {}
  LogField(absl::string_view k, const char* v) : key(k), value(v) {}

  absl::string_view key;
  std::string value;
};

void Log(LogLevel level, absl::string_view event, std::initializer_list<LogField> fields = {});

// Sets the `program` field; call it first thing in main. `name` must outlive the process.
void SetLogProgram(const char* name);

// Lines below this level are dropped. Default: MUSTER_LOG_LEVEL (debug, info, warning, error), else
// info.
void SetLogLevel(LogLevel level);

// The line that Log would write, without its timestamp. For tests.
std::string FormatLogLine(LogLevel level, absl::string_view event,
                          std::initializer_list<LogField> fields);

}  // namespace muster
