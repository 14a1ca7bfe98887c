#include "cli/output/text.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/units.h"

namespace muster::cli {
namespace {

bool StartsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

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
  std::string plain(text);
  for (char& c : plain) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) c = ' ';
  }
  return plain;
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
