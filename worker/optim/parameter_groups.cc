#include "worker/optim/parameter_groups.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/optim/layers.h"

namespace muster::worker {
namespace {

// Edits that would make the name match, where `*` takes any text and `?` any character for nothing.
size_t Distance(absl::string_view pattern, absl::string_view name) {
  std::vector<size_t> row(name.size() + 1);
  for (size_t j = 0; j <= name.size(); ++j) row[j] = j;
  for (const char c : pattern) {
    size_t diagonal = row[0];
    if (c != '*') ++row[0];
    for (size_t j = 1; j <= name.size(); ++j) {
      const size_t above = row[j];
      if (c == '*') {
        row[j] = std::min(above, row[j - 1]);
      } else {
        const size_t changed = diagonal + (c == '?' || c == name[j - 1] ? 0 : 1);
        row[j] = std::min({changed, above + 1, row[j - 1] + 1});
      }
      diagonal = above;
    }
  }
  return row[name.size()];
}

std::string Quoted(const GroupRule& rule, size_t index) {
  return absl::StrCat("train.optimizer.groups[", index, "].pattern `", rule.pattern, "`");
}

// Which rule each parameter follows; the number of rules for none.
absl::StatusOr<std::vector<size_t>> Match(const std::vector<GroupRule>& rules,
                                          const std::vector<ParameterShape>& parameters) {
  std::vector<size_t> rule_of(parameters.size(), rules.size());
  for (size_t r = 0; r < rules.size(); ++r) {
    bool matched = false;
    bool taken = false;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (!MatchesPattern(rules[r].pattern, parameters[i].name)) continue;
      matched = true;
      if (rule_of[i] != rules.size()) continue;
      rule_of[i] = r;
      taken = true;
    }
    if (!matched) {
      std::vector<std::string> names;
      for (const ParameterShape& parameter : parameters) names.push_back(parameter.name);
      return absl::InvalidArgumentError(
          absl::StrCat(Quoted(rules[r], r), " matches no parameter; the nearest one is `",
                       NearestToPattern(rules[r].pattern, names), "`"));
    }
    if (!taken) {
      return absl::InvalidArgumentError(absl::StrCat(
          Quoted(rules[r], r), " matches only parameters of earlier groups: put it before them"));
    }
  }
  return rule_of;
}

bool IsNormOrBias(const ParameterShape& parameter) {
  return parameter.shape.size() <= 1 || absl::EndsWith(parameter.name, ".bias");
}

}  // namespace

bool MatchesPattern(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

std::string NearestToPattern(absl::string_view pattern, const std::vector<std::string>& names) {
  size_t best = std::numeric_limits<size_t>::max();
  std::string nearest;
  for (const std::string& name : names) {
    const size_t distance = Distance(pattern, name);
    if (distance >= best) continue;
    best = distance;
    nearest = name;
  }
  return nearest;
}

absl::StatusOr<std::vector<ParameterSettings>> AssignGroups(
    const GroupingConfig& config, const std::vector<ParameterShape>& parameters) {
  const auto rule_of = Match(config.groups, parameters);
  if (!rule_of.ok()) return rule_of.status();
  std::vector<int64_t> layers;
  if (config.layer_decay != 1) {
    std::vector<std::string> names;
    for (const ParameterShape& parameter : parameters) names.push_back(parameter.name);
    layers = LayerNumbers(names);
    if (layers.empty()) {
      return absl::InvalidArgumentError(
          "train.optimizer.layer_decay: the names of this model's parameters tell no layers; use "
          "train.optimizer.groups instead");
    }
  }
  const int64_t top = layers.empty() ? 0 : *std::max_element(layers.begin(), layers.end());
  std::vector<ParameterSettings> settings(parameters.size());
  bool all_frozen = true;
  for (size_t i = 0; i < parameters.size(); ++i) {
    ParameterSettings& own = settings[i];
    own.weight_decay = config.weight_decay;
    if ((*rule_of)[i] < config.groups.size()) {
      const GroupRule& rule = config.groups[(*rule_of)[i]];
      own.frozen = rule.frozen;
      own.lr_scale = rule.lr_scale;
      own.weight_decay = rule.weight_decay;
    }
    if (!layers.empty())
      own.lr_scale *= std::pow(config.layer_decay, static_cast<double>(top - layers[i]));
    if (!config.decay_norms_and_biases && IsNormOrBias(parameters[i])) {
      own.weight_decay = 0;
      own.adapt = false;
    }
    all_frozen = all_frozen && own.frozen;
  }
  if (all_frozen) {
    return absl::InvalidArgumentError(
        "train.optimizer.groups: every parameter is frozen: nothing would be trained");
  }
  return settings;
}

}  // namespace muster::worker
