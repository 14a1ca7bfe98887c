// What a command says: a table for people, or JSON for machines, from the same values.
//
// Used by every command. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster::worker {

// Columns that are as wide as their widest cell; those of numbers stand right.
class TextTable {
 public:
  // A title that begins with '>' is of a column that stands right.
  explicit TextTable(std::vector<std::string> titles);
  // Requires a cell for each title.
  void Add(std::vector<std::string> cells);
  bool empty() const { return rows_.size() <= 1; }
  // Lines that end in a newline, without blanks at their ends.
  std::string Render() const;

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;  // the titles first
};

// "name  value" lines, the names padded.
std::string RenderFacts(const std::vector<std::pair<std::string, std::string>>& facts);

// `text` with what is no printable UTF-8 escaped as \xNN: keys come from outside.
std::string Printable(absl::string_view text);

}  // namespace muster::worker
