// What the optimizer does with each parameter, decided by names: groups by pattern, decay of the
// learning rate by layers, weight decay of norms and biases. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster::worker {

struct GroupRule {
  std::string pattern;  // see MatchesPattern
  double lr_scale = 1;
  double weight_decay = 0;
  bool frozen = false;
};

struct GroupingConfig {
  std::vector<GroupRule> groups;  // the first that matches counts
  double weight_decay = 0;        // of parameters that no group matches
  double layer_decay = 1;         // 1: off
  bool decay_norms_and_biases = true;
};

struct ParameterShape {
  std::string name;
  std::vector<int64_t> shape;
};

struct ParameterSettings {
  double lr_scale = 1;
  double weight_decay = 0;
  bool adapt = true;  // lars and lamb scale its steps
  bool frozen = false;
};

// A shell pattern over the whole name: `*` any text, `?` one character, `[abc]` one of these.
bool MatchesPattern(const std::string& pattern, const std::string& name);

// The name that a pattern came nearest to, for a message; empty without names.
std::string NearestToPattern(absl::string_view pattern, const std::vector<std::string>& names);

// One answer for each parameter. INVALID_ARGUMENT when a pattern matches no parameter, or only
// those that earlier groups have taken; when everything is frozen; when layer_decay is below 1 and
// the names tell no layers.
absl::StatusOr<std::vector<ParameterSettings>> AssignGroups(
    const GroupingConfig& config, const std::vector<ParameterShape>& parameters);

}  // namespace muster::worker
