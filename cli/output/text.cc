#include "cli/output/text.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/units.h"

namespace muster::cli {
namespace {

bool StartsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

// How many bytes of a colour's escape sequence ("ESC [ 1 ; 31 m") are at the front; 0: none.
size_t ColourBytes(absl::string_view text) {
  if (text.size() < 3 || text[0] != '\x1b' || text[1] != '[') return 0;
  const size_t end = text.find_first_not_of("0123456789;", 2);
  return end != text.npos && text[end] == 'm' ? end + 1 : 0;
}

}  // namespace

size_t DisplayWidth(absl::string_view text) {
  size_t width = 0;
  for (const char c : text) width += StartsCharacter(c) ? 1 : 0;
  return width;
}

std::string CutTo(absl::string_view text, size_t width) {
  if (DisplayWidth(text) <= width) return std::string(text);
  if (width == 0) return "";
  size_t end = 0;
  for (size_t seen = 0; end < text.size(); ++end) {
    if (StartsCharacter(text[end]) && ++seen == width) break;
  }
  return absl::StrCat(text.substr(0, end), "~");
}

std::string TakeLine(std::string* text, size_t width) {
  size_t end = 0;
  size_t blank = 0;  // the last one that the line could end at
  for (size_t seen = 0; end < text->size(); ++end) {
    if (StartsCharacter((*text)[end]) && ++seen > width) break;
    if ((*text)[end] == ' ') blank = end;
  }
  if (end == text->size()) return std::exchange(*text, "");
  if (blank == 0 || (*text)[end] == ' ') blank = end;
  const std::string line = text->substr(0, blank);
  text->erase(0, (*text)[blank] == ' ' ? blank + 1 : blank);
  return line;
}

std::string Plain(absl::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F: a terminal may take them for escape sequences.
    const bool c1 = byte == 0xC2 && i + 1 < text.size() &&
                    static_cast<unsigned char>(text[i + 1]) >= 0x80 &&
                    static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c1) ++i;
    plain += c1 || byte < 0x20 || byte == 0x7F ? ' ' : text[i];
  }
  return plain;
}

std::string ForTerminal(absl::string_view line) {
  std::string tame;
  bool coloured = false;
  while (!line.empty()) {
    const size_t colour = ColourBytes(line);
    if (colour > 0) {
      tame.append(line.data(), colour);
      line.remove_prefix(colour);
      coloured = true;
    } else if (line.front() == '\t') {
      tame += '\t';
      line.remove_prefix(1);
    } else {
      const size_t next =
          std::max<size_t>(1, std::min(line.find_first_of("\t\x1b", 1), line.size()));
      tame += Plain(line.substr(0, next));
      line.remove_prefix(next);
    }
  }
  return coloured ? tame + "\x1b[0m" : tame;
}

std::string Age(absl::Time now, int64_t then_ms) {
  if (then_ms == 0) return kNothing;
  return HumanDuration(absl::Floor(now - absl::FromUnixMillis(then_ms), absl::Seconds(1)));
}

std::string TimeText(int64_t time_ms) {
  if (time_ms == 0) return kNothing;
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::FromUnixMillis(time_ms), absl::UTCTimeZone());
}

std::string Number(std::optional<double> value) {
  if (!value.has_value()) return kNothing;
  const double v = *value;
  if (std::isnan(v)) return "nan";
  const double size = std::fabs(v);
  if (v == 0) return "0";
  if (size >= 1e7 || size < 1e-4) return absl::StrFormat("%.2g", v);
  if (size >= 1000) return absl::StrFormat("%.0f", v);
  if (size >= 100) return absl::StrFormat("%.1f", v);
  if (size >= 10) return absl::StrFormat("%.2f", v);
  return size >= 1 ? absl::StrFormat("%.3f", v) : absl::StrFormat("%.4f", v);
}

std::string Percent(std::optional<double> fraction) {
  return fraction.has_value() ? absl::StrFormat("%.1f%%", 100 * *fraction) : kNothing;
}

std::string Bytes(std::optional<double> bytes) {
  return bytes.has_value() ? HumanBytes(*bytes) : kNothing;
}

}  // namespace muster::cli
