// YAML or JSON -> JobSpec, by walking the tree and the message's descriptor. Every fault is
// reported, with its path and line: unknown and repeated keys, wrong types (the string "12" is no
// number), unknown enum values, bad durations, several members of a oneof. Only reads: LoadSpec
// (load_spec.h) also fills defaults and checks bounds. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/spec/tree/spec_fault.h"
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

}  // namespace muster
