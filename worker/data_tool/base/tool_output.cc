#include "worker/data_tool/base/tool_output.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/utf8.h"

namespace muster::worker {
namespace {

// Characters, not bytes: those that go on from another byte are none.
size_t WidthOf(absl::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
}

}  // namespace

TextTable::TextTable(std::vector<std::string> titles) {
  for (std::string& title : titles) {
    right_.push_back(!title.empty() && title[0] == '>');
    if (right_.back()) title.erase(0, 1);
  }
  rows_.push_back(std::move(titles));
}

void TextTable::Add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

std::string TextTable::Render() const {
  std::vector<size_t> widths(right_.size(), 0);
  for (const auto& row : rows_)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], WidthOf(row[i]));
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths[i] - WidthOf(row[i]), ' ');
      absl::StrAppend(&line, i > 0 ? "  " : "", right_[i] ? blanks : "", row[i],
                      right_[i] ? "" : blanks);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::string RenderFacts(const std::vector<std::pair<std::string, std::string>>& facts) {
  size_t width = 0;
  for (const auto& [name, value] : facts) width = std::max(width, name.size());
  std::string text;
  for (const auto& [name, value] : facts)
    absl::StrAppend(&text, name, std::string(width - name.size() + 2, ' '), value, "\n");
  return text;
}

std::string Printable(absl::string_view text) {
  const bool utf8 = IsUtf8(text);
  std::string printable;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte < 0x20 || byte == 0x7f || (!utf8 && byte >= 0x80)) {
      absl::StrAppendFormat(&printable, "\\x%02x", byte);
    } else {
      printable.push_back(c);
    }
  }
  return printable;
}

}  // namespace muster::worker
