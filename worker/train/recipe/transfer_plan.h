// Which tensor of a file becomes which tensor of a model: decided by names and shapes alone. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster::worker {

// `from` and `to` hold the same number of `*`, one or none; it stands for any text, the same in
// both.
struct NameRule {
  std::string from;
  std::string to;
};

struct TransferRules {
  std::vector<NameRule> map;        // the first that fits a name of the file renames it
  std::vector<std::string> ignore;  // patterns (MatchesPattern) of the model's names: stay fresh
  bool strict = false;
};

struct TransferTensor {
  std::string name;
  std::vector<int64_t> shape;
  bool frozen = false;  // of a model: must not stay fresh by accident
};

struct TransferPlan {
  struct Copy {
    size_t source = 0;
    size_t target = 0;
  };
  std::vector<Copy> copies;
  // For the record, by name:
  std::vector<std::string> ignored;   // of the model, by a rule
  std::vector<std::string> missing;   // of the model, not in the file: stay fresh
  std::vector<std::string> reshaped;  // of the model's head, another shape in the file: stay fresh
  std::vector<std::string> unused;    // of the file, not in the model
};

// `head` is the prefix of the head's names ("fc."): only it may have another shape than in the
// file, as when the number of classes differs. FAILED_PRECONDITION, naming tensors, when nothing
// matches, another tensor's shape differs, two of the file become one, or a frozen parameter is
// missing; with `strict`, when anything but what is ignored is missing, reshaped or unused.
absl::StatusOr<TransferPlan> PlanTransfer(const TransferRules& rules,
                                          const std::vector<TransferTensor>& file,
                                          const std::vector<TransferTensor>& model,
                                          const std::string& head);

// "a, b and 3 more".
std::string NamesInShort(const std::vector<std::string>& names);

}  // namespace muster::worker
