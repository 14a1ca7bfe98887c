// A YAML or JSON document as a plain tree that remembers lines, quotes and repeated keys: what
// ReadSpec walks. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/spec/tree/spec_fault.h"

namespace muster {

// Bounds of a document from outside. Aliases count for what they expand to.
inline constexpr size_t kMaxSpecBytes = 64 * 1024;
inline constexpr int kMaxSpecDepth = 32;
inline constexpr size_t kMaxSpecNodes = 10'000;

struct SpecNode {
  enum class Kind { kNull, kScalar, kSequence, kMapping };
  struct Entry;

  Kind kind = Kind::kNull;
  std::string text;     // kScalar
  bool quoted = false;  // kScalar: was a string by its spelling, so "12" is not a number
  int line = 0;         // 1-based; 0: given by --set
  std::vector<SpecNode> items;
  std::vector<Entry> entries;  // in the order of the text; a key may repeat

  const Entry* Find(absl::string_view key) const;
  Entry* Find(absl::string_view key);
};

struct SpecNode::Entry {
  std::string key;
  int line = 0;
  SpecNode value;
};

// Reads one document: JSON when it is an object in JSON, else YAML 1.2 (aliases are expanded, merge
// keys and tags refused). On a syntax error or a broken bound one fault is appended and the tree is
// empty; faults that leave the rest readable are appended and reading goes on.
SpecNode ParseSpecTree(absl::string_view text, std::vector<SpecFault>& faults);

}  // namespace muster
