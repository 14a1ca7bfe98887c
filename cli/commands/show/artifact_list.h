// The files that a job left for people, as far as this machine sees their folder.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace muster::cli {

struct ArtifactList {
  bool seen = false;               // the folder is there, and was read in time
  std::vector<std::string> names;  // in it, sorted, of folders with a slash; at most kMaxArtifacts
  size_t left_out = 0;
};

inline constexpr size_t kMaxArtifacts = 50;

// Waits for so long at most: the folder may lie on a file system that does not answer.
ArtifactList ListArtifacts(const std::string& folder, absl::Duration patience = absl::Seconds(2));

}  // namespace muster::cli
