// Who may include whom: the arrows of docs/ARCHITECTURE.md as one table, and the rules that judge a
// source file by it.
//
// Pure: text in, complaints out. Used by arrows_test, which reads the tree. What the table does not
// list is forbidden.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster::testing {

// The complaints about one file, empty when it keeps the rules; each names the file, the line and
// the rule.
//   path: from the repository's root ("controller/api/job_service.cc"); files outside the four
//   program folders
//         (common, controller, worker, cli) are free, and give none.
//   text: the file's content.
std::vector<std::string> CheckIncludes(absl::string_view path, absl::string_view text);

// Judges the shared libraries that one executable loads, as full paths or names: a complaint when
// torch and gRPC or protobuf are both among them.
std::vector<std::string> CheckLibraries(absl::string_view executable,
                                        const std::vector<std::string>& libraries);

}  // namespace muster::testing
