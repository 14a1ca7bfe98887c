#include "common/spec/read/spec_overrides.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace muster {
namespace {

void ForgetLines(SpecNode& node) {
  node.line = 0;
  for (SpecNode& item : node.items) ForgetLines(item);
  for (SpecNode::Entry& entry : node.entries) {
    entry.line = 0;
    ForgetLines(entry.value);
  }
}

// Walks to the mapping that holds the last key, making what is missing. nullptr: `blocker` is in
// the way.
SpecNode* Descend(SpecNode& root, const std::vector<std::string>& keys, std::string& blocker) {
  SpecNode* at = &root;
  for (size_t i = 0;; ++i) {
    if (at->kind == SpecNode::Kind::kNull) at->kind = SpecNode::Kind::kMapping;
    if (at->kind != SpecNode::Kind::kMapping) return nullptr;
    if (i + 1 == keys.size()) return at;
    absl::StrAppend(&blocker, blocker.empty() ? "" : ".", keys[i]);
    SpecNode::Entry* next = at->Find(keys[i]);
    at = next != nullptr ? &next->value
                         : &at->entries.emplace_back(SpecNode::Entry{keys[i], 0, {}}).value;
  }
}

void ApplyOne(const std::string& text, SpecNode& root, std::vector<SpecFault>& faults) {
  const size_t equals = text.find('=');
  const std::vector<std::string> keys = absl::StrSplit(text.substr(0, equals), '.');
  const bool gap =
      std::any_of(keys.begin(), keys.end(), [](const std::string& k) { return k.empty(); });
  if (equals == std::string::npos || gap) {
    faults.push_back({"", 0,
                      absl::StrCat("--set ", ShownValue(text),
                                   ": write it as path=value, e.g. "
                                   "train.optimizer.lr=0.1")});
    return;
  }
  const std::string path = text.substr(0, equals);
  std::vector<SpecFault> syntax;
  SpecNode value = ParseSpecTree(absl::string_view(text).substr(equals + 1), syntax);
  for (const SpecFault& fault : syntax) {
    faults.push_back({path, 0, absl::StrCat("the value given by --set: ", fault.message)});
  }
  if (!syntax.empty()) return;
  ForgetLines(value);
  std::string blocker;
  SpecNode* parent = Descend(root, keys, blocker);
  if (parent == nullptr) {
    faults.push_back({path, 0,
                      absl::StrCat("cannot be set: ", blocker.empty() ? "the spec" : blocker,
                                   " is a single value or a list")});
    return;
  }
  std::erase_if(parent->entries, [&](const SpecNode::Entry& e) { return e.key == keys.back(); });
  if (value.kind != SpecNode::Kind::kNull) {
    parent->entries.push_back(SpecNode::Entry{keys.back(), 0, std::move(value)});
  }
}

}  // namespace

void ExpandRanks(SpecNode& root) {
  SpecNode::Entry* ranks = root.Find("ranks");
  if (ranks == nullptr || ranks->value.kind != SpecNode::Kind::kScalar || ranks->value.quoted)
    return;
  const std::string& text = ranks->value.text;
  if (text.empty() || !std::all_of(text.begin(), text.end(), [](char c) {
        return absl::ascii_isdigit(static_cast<unsigned char>(c));
      })) {
    return;
  }
  SpecNode both;
  both.kind = SpecNode::Kind::kMapping;
  both.line = ranks->value.line;
  for (const char* key : {"min", "max"}) {
    both.entries.push_back(SpecNode::Entry{key, ranks->line, ranks->value});
  }
  ranks->value = std::move(both);
}

void ExpandCommand(SpecNode& root) {
  SpecNode::Entry* command = root.Find("command");
  if (command == nullptr || command->value.kind != SpecNode::Kind::kSequence) return;
  SpecNode mapping;
  mapping.kind = SpecNode::Kind::kMapping;
  mapping.line = command->value.line;
  mapping.entries.push_back(SpecNode::Entry{"argv", command->line, std::move(command->value)});
  command->value = std::move(mapping);
}

void ApplyOverrides(const std::vector<std::string>& overrides, SpecNode& root,
                    std::vector<SpecFault>& faults) {
  for (const std::string& text : overrides) {
    ExpandRanks(root);  // so that `ranks: 2` in the file and --set ranks.max=4 fit together
    ExpandCommand(root);
    ApplyOne(text, root, faults);
  }
  ExpandRanks(root);
  ExpandCommand(root);
}

}  // namespace muster
