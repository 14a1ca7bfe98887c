#include "cli/output/table.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/output/text.h"
#include "common/base/check.h"

namespace muster::cli {
namespace {

constexpr size_t kGap = 2;
// A wrapped column never gets narrower: one word a line is harder to read than a line that is cut.
constexpr size_t kLeastWrapped = 20;

std::string Cell(const std::string& text, size_t width, bool right) {
  const std::string cut = CutTo(text, width);
  const std::string blanks(width - DisplayWidth(cut), ' ');
  return right ? blanks + cut : cut + blanks;
}

}  // namespace

void Table::Add(std::vector<std::string> cells) {
  MUSTER_CHECK(cells.size() == columns_.size(), "a table row has one cell for each column");
  for (std::string& cell : cells) cell = cell.empty() ? kNothing : Plain(cell);
  rows_.push_back(std::move(cells));
}

std::vector<size_t> Table::Widths(bool header, size_t width) const {
  std::vector<size_t> widths;
  for (size_t i = 0; i < columns_.size(); ++i) {
    size_t widest = header ? DisplayWidth(columns_[i].title) : 1;
    for (const auto& row : rows_) widest = std::max(widest, DisplayWidth(row[i]));
    widths.push_back(widest);
  }
  size_t total = std::accumulate(widths.begin(), widths.end(), kGap * (columns_.size() - 1));
  for (size_t i = columns_.size(); i-- > 0 && total > width;) {
    if (!columns_[i].elastic && !columns_[i].wrap) continue;
    const size_t floor = columns_[i].wrap ? kLeastWrapped : DisplayWidth(columns_[i].title);
    const size_t least = std::min(widths[i], floor);
    const size_t cut = std::min(widths[i] - least, total - width);
    widths[i] -= cut;
    total -= cut;
  }
  return widths;
}

std::string Table::Render(bool header, size_t width) const {
  const std::vector<size_t> widths = Widths(header, width);
  std::string text;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string row;
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (i > 0) row.append(kGap, ' ');
      row += Cell(cells[i], widths[i], columns_[i].right);
    }
    row = CutTo(row, width);
    row.erase(row.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, row, "\n");
  };
  if (header) {
    std::vector<std::string> titles;
    for (const Column& column : columns_) titles.push_back(column.title);
    line(titles);
  }
  for (std::vector<std::string> rest : rows_) {
    // What a wrapped cell has left after its first line; the other cells have one line each.
    bool more = true;
    while (more) {
      more = false;
      std::vector<std::string> cells(columns_.size());
      for (size_t i = 0; i < columns_.size(); ++i) {
        cells[i] = columns_[i].wrap ? TakeLine(&rest[i], widths[i]) : std::exchange(rest[i], "");
        more = more || !rest[i].empty();
      }
      line(cells);
    }
  }
  return text;
}

}  // namespace muster::cli
