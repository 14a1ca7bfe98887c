// `--set path=value`: lays values over the tree of a spec, before it is walked. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/spec/tree/spec_fault.h"
#include "common/spec/tree/spec_tree.h"

namespace muster {

// Sets each path in turn; what has no path, or a path through a value that is no mapping, is a
// fault.
void ApplyOverrides(const std::vector<std::string>& overrides, SpecNode& root,
                    std::vector<SpecFault>& faults);

// `ranks: 2` -> `ranks: {min: 2, max: 2}`.
void ExpandRanks(SpecNode& root);
// `command: [a, b]` -> `command: {argv: [a, b]}`.
void ExpandCommand(SpecNode& root);

}  // namespace muster
