// Manual pages, made of the same verbs and flags as --help. Pure.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster::cli {

struct ManPage {
  std::string file;  // muster.1, muster-nodes.1
  std::string text;  // in man(7)
};

// One of the program and one a verb; what is below a verb is on its page. `version`: "0.1.0".
std::vector<ManPage> ManPages(const CLI::App& app, absl::string_view version);

}  // namespace muster::cli
