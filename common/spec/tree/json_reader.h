// JSON text -> SpecNode, on nlohmann's event interface, which keeps repeated keys. Used by
// ParseSpecTree alone.
#pragma once

#include <vector>

#include "absl/strings/string_view.h"
#include "common/spec/tree/spec_tree.h"

namespace muster {

bool IsJson(absl::string_view text);

// Requires IsJson(text). A broken bound is a fault, and the tree is empty.
SpecNode ReadJsonTree(absl::string_view text, std::vector<SpecFault>& faults);

}  // namespace muster
