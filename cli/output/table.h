// An aligned table that fits a width. Pure.
//
// Columns are as wide as their widest cell. When the sum is too wide, the elastic columns give way
// from the last to the first, never below their title's width; the rest is cut at the right edge.
// What does not fit into a wrapped column goes on below instead.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace muster::cli {

inline constexpr size_t kTableWidth = 100;

struct Column {
  std::string title;
  bool right = false;    // numbers stand right
  bool elastic = false;  // may be cut when the table is too wide
  bool wrap = false;     // may be broken into lines when the table is too wide
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Requires one cell a column. An empty cell shows as "-".
  void Add(std::vector<std::string> cells);

  bool empty() const { return rows_.empty(); }
  const std::vector<Column>& columns() const { return columns_; }
  // Cells as they are shown.
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }

  // Lines that end in a newline, without trailing blanks.
  std::string Render(bool header, size_t width = kTableWidth) const;

 private:
  std::vector<size_t> Widths(bool header, size_t width) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace muster::cli
