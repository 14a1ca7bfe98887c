// YAML or JSON -> JobSpec, by walking the tree: against plain tables as long as nothing is wrong
// (table_reader.h), and by reflection to tell what is. Every fault is reported, with its path and
// line: unknown and repeated keys, wrong types (the string "12" is no number), unknown enum values,
// bad durations, several members of a oneof. Fills no defaults and knows no bounds: LoadSpec does
// all three. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/spec/tree/spec_fault.h"
#include "common/spec/tree/spec_tree.h"
#include "muster/v1/job_spec.pb.h"

namespace muster {

// Values of --set that one submit may give.
inline constexpr size_t kMaxSpecOverrides = 256;

struct ReadSpecResult {
  v1::JobSpec spec;  // without the keys that have faults
  std::vector<SpecFault> faults;
  std::map<std::string, int> lines;  // path -> line, of every key that was read
};

// `overrides` are `path=value`, laid over the text in their order, e.g. `train.optimizer.lr=0.1`,
// `train.model.mlp.hidden=[64, 64]`, `ranks=2`. The value is YAML; `null` or nothing takes the key
// out.
ReadSpecResult ReadSpec(absl::string_view text, const std::vector<std::string>& overrides = {});

// The part of ReadSpec that walks by reflection, for a tree with the overrides laid over it; adds
// to `result`.
void ReadSpecTree(const SpecNode& root, ReadSpecResult& result);

}  // namespace muster
