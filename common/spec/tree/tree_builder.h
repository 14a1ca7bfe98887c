// Puts a document's events together into a SpecNode, and holds the bounds. Both readers feed it.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/spec/tree/spec_tree.h"

namespace muster {

class TreeBuilder {
 public:
  // True when the next event is a key of the mapping on top.
  bool ExpectsKey() const {
    return !open_.empty() && open_.back().node.kind == SpecNode::Kind::kMapping &&
           !open_.back().has_key;
  }
  // Requires ExpectsKey().
  void Key(std::string key, int line) {
    open_.back().key = std::move(key);
    open_.back().key_line = line;
    open_.back().has_key = true;
  }
  // Each returns empty, or what bound was broken; then the document must be given up.
  std::string Add(SpecNode node) {
    nodes_ += CountNodes(node);
    if (nodes_ > kMaxSpecNodes) return absl::StrCat("has more than ", kMaxSpecNodes, " values");
    Attach(std::move(node));
    return "";
  }
  std::string Open(SpecNode::Kind kind, int line) {
    if (open_.size() >= static_cast<size_t>(kMaxSpecDepth)) {
      return absl::StrCat("is nested deeper than ", kMaxSpecDepth, " levels");
    }
    if (++nodes_ > kMaxSpecNodes) return absl::StrCat("has more than ", kMaxSpecNodes, " values");
    Frame frame;
    frame.node.kind = kind;
    frame.node.line = line;
    open_.push_back(std::move(frame));
    return "";
  }
  // Returns what was closed, where it stands until the next event.
  const SpecNode& Close() {
    SpecNode node = std::move(open_.back().node);
    open_.pop_back();
    return Attach(std::move(node));
  }
  // The line of the key whose value comes next; 0: none.
  int KeyLine() const { return open_.empty() || !open_.back().has_key ? 0 : open_.back().key_line; }

  SpecNode TakeRoot() { return std::move(root_); }

 private:
  struct Frame {
    SpecNode node;
    bool has_key = false;
    std::string key;
    int key_line = 0;
  };

  static size_t CountNodes(const SpecNode& node) {
    size_t count = 1;
    for (const SpecNode& item : node.items) count += CountNodes(item);
    for (const SpecNode::Entry& entry : node.entries) count += CountNodes(entry.value);
    return count;
  }

  const SpecNode& Attach(SpecNode node) {
    if (open_.empty()) return root_ = std::move(node);
    Frame& top = open_.back();
    if (top.node.kind == SpecNode::Kind::kSequence)
      return top.node.items.emplace_back(std::move(node));
    top.has_key = false;
    return top.node.entries
        .emplace_back(SpecNode::Entry{std::move(top.key), top.key_line, std::move(node)})
        .value;
  }

  std::vector<Frame> open_;
  size_t nodes_ = 0;
  SpecNode root_;
};

}  // namespace muster
