// YAML text -> SpecNode, on yaml-cpp's event interface: no alias is expanded behind our back. The
// one file that catches yaml-cpp's exceptions. Used by ParseSpecTree alone.
#pragma once

#include <vector>

#include "absl/strings/string_view.h"
#include "common/spec/tree/spec_tree.h"

namespace muster {

// Reads exactly one document; an empty text is an empty tree. A syntax error or a broken bound is a
// fault with its line, and the tree is empty; merge keys, tags and keys that are not plain text are
// faults too.
SpecNode ReadYamlTree(absl::string_view text, std::vector<SpecFault>& faults);

}  // namespace muster
