// Small pieces of text that every view is made of. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster::cli {

// What stands for a value that is not there.
inline constexpr char kNothing[] = "-";

// Columns that UTF-8 text takes on a terminal, each character counted as one.
size_t DisplayWidth(absl::string_view text);

// At most `width` columns of the text; what is cut ends in "~".
std::string CutTo(absl::string_view text, size_t width);

// Takes what fits into `width` columns from the front of `text`, up to a blank where there is one.
// Requires width > 0.
std::string TakeLine(std::string* text, size_t width);

// The text on one line: control characters (C0, DEL and C1) become blanks, so that a name or
// message from outside cannot move the cursor.
std::string Plain(absl::string_view text);

// A line of a program's output for a terminal: colours and tabs stay, whatever else could move the
// cursor or change the terminal becomes a blank; ends in the colours that were before.
std::string ForTerminal(absl::string_view line);

// How long ago `then_ms` (Unix milliseconds) was: "2h47m"; "-" for 0.
std::string Age(absl::Time now, int64_t then_ms);

// "2026-01-31 12:00:00" in UTC; "-" for 0.
std::string TimeText(int64_t time_ms);

// Three or four significant digits: "0.0312", "12.3", "1234", "1.2e-07"; "-" when absent.
std::string Number(std::optional<double> value);

// 0.975 -> "97.5%"; "-" when absent.
std::string Percent(std::optional<double> fraction);

// "312 MiB"; "-" when absent.
std::string Bytes(std::optional<double> bytes);

}  // namespace muster::cli
