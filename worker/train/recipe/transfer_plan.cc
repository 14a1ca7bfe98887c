#include "worker/train/recipe/transfer_plan.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "worker/optim/parameter_groups.h"

namespace muster::worker {
namespace {

// A wrong file differs in all of its tensors: name a few.
constexpr size_t kMaxNamed = 8;

// Whether `rule` fits; then `name` is replaced.
bool Rename(const NameRule& rule, std::string& name) {
  const size_t star = rule.from.find('*');
  if (star == std::string::npos) {
    if (name != rule.from) return false;
    name = rule.to;
    return true;
  }
  const absl::string_view before = absl::string_view(rule.from).substr(0, star);
  const absl::string_view after = absl::string_view(rule.from).substr(star + 1);
  if (name.size() < before.size() + after.size() || !absl::StartsWith(name, before) ||
      !absl::EndsWith(name, after)) {
    return false;
  }
  const std::string text = name.substr(before.size(), name.size() - before.size() - after.size());
  const size_t place = rule.to.find('*');
  name = place == std::string::npos
             ? rule.to
             : absl::StrCat(rule.to.substr(0, place), text, rule.to.substr(place + 1));
  return true;
}

std::string Shape(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::Status Unfit(absl::string_view what, const std::vector<std::string>& names,
                   absl::string_view remedy) {
  return absl::FailedPreconditionError(absl::StrCat(what, ": ", NamesInShort(names), remedy));
}

// New name -> place in the file.
absl::StatusOr<std::map<std::string, size_t>> NewNames(const TransferRules& rules,
                                                       const std::vector<TransferTensor>& file) {
  std::map<std::string, size_t> places;
  for (size_t i = 0; i < file.size(); ++i) {
    std::string name = file[i].name;
    for (const NameRule& rule : rules.map) {
      if (Rename(rule, name)) break;
    }
    const auto [at, fresh] = places.emplace(name, i);
    if (!fresh) {
      return absl::FailedPreconditionError(absl::StrCat("train.weights.map makes `", name,
                                                        "` of both `", file[at->second].name,
                                                        "` and `", file[i].name, "`"));
    }
  }
  return places;
}

absl::Status CheckPlan(const TransferRules& rules, const TransferPlan& plan,
                       const std::vector<std::string>& different,
                       const std::vector<std::string>& frozen,
                       const std::vector<TransferTensor>& file) {
  if (!different.empty()) {
    return Unfit("the file has other shapes than the model", different,
                 "; list them in train.weights.ignore to start them fresh");
  }
  if (plan.copies.empty()) {
    std::vector<std::string> names;
    for (const TransferTensor& tensor : file) names.push_back(tensor.name);
    return Unfit("no tensor of the file has a name of the model's; the file has", names,
                 "; rename them with train.weights.map");
  }
  if (!frozen.empty()) {
    return Unfit("the file lacks parameters that are frozen", frozen,
                 "; list them in train.weights.ignore to freeze them as they were drawn");
  }
  if (!rules.strict) return absl::OkStatus();
  const std::string hint = " (train.weights.strict)";
  if (!plan.missing.empty()) return Unfit("the file lacks", plan.missing, hint);
  if (!plan.reshaped.empty()) return Unfit("the file has other shapes", plan.reshaped, hint);
  if (!plan.unused.empty()) return Unfit("the model has no place for", plan.unused, hint);
  return absl::OkStatus();
}

}  // namespace

std::string NamesInShort(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kMaxNamed);
  std::string text =
      absl::StrJoin(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", ");
  if (names.size() > shown) absl::StrAppend(&text, " and ", names.size() - shown, " more");
  return text;
}

absl::StatusOr<TransferPlan> PlanTransfer(const TransferRules& rules,
                                          const std::vector<TransferTensor>& file,
                                          const std::vector<TransferTensor>& model,
                                          const std::string& head) {
  auto places = NewNames(rules, file);
  if (!places.ok()) return places.status();
  const auto ignored = [&rules](const std::string& name) {
    return std::any_of(rules.ignore.begin(), rules.ignore.end(),
                       [&](const std::string& pattern) { return MatchesPattern(pattern, name); });
  };
  TransferPlan plan;
  std::vector<std::string> different, frozen;
  for (size_t i = 0; i < model.size(); ++i) {
    const TransferTensor& wanted = model[i];
    const auto place = places->find(wanted.name);
    const bool found = place != places->end();
    const size_t source = found ? place->second : 0;
    if (found) places->erase(place);
    if (ignored(wanted.name)) {
      plan.ignored.push_back(wanted.name);
    } else if (!found) {
      plan.missing.push_back(wanted.name);
      if (wanted.frozen) frozen.push_back(wanted.name);
    } else if (file[source].shape == wanted.shape) {
      plan.copies.push_back({source, i});
    } else {
      const bool fresh_head = absl::StartsWith(wanted.name, head) && !wanted.frozen;
      (fresh_head ? plan.reshaped : different)
          .push_back(absl::StrCat(wanted.name, " ", Shape(file[source].shape), ", want ",
                                  Shape(wanted.shape)));
    }
  }
  for (const auto& [name, source] : *places) {
    if (!ignored(name)) plan.unused.push_back(file[source].name);
  }
  const absl::Status checked = CheckPlan(rules, plan, different, frozen, file);
  if (!checked.ok()) return checked;
  return plan;
}

}  // namespace muster::worker
