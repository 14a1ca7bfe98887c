// What the README.md of a Hugging Face dataset says of its files: the part `configs` of its YAML
// header (huggingface.co/docs/hub/datasets-manual-configuration).
//
//   ---
//   configs:
//   - config_name: default
//     data_files:
//     - split: train
//       path: data/train-*
//     - split: test
//       path: ["data/test-*"]
//   ---
//
// Used to find a data set's files. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster::worker {

struct CardSplit {
  std::string name;
  std::vector<std::string> patterns;  // relative to the README's folder
};

struct CardConfig {
  std::string name;
  bool is_default = false;
  std::vector<CardSplit> splits;
};

// Of a part more is not looked at.
inline constexpr size_t kMostCardBytes = 1u << 20;

// In the order of the file; none where there is no such header or no part `configs` in it, which
// may be in a file of any kind. INVALID_ARGUMENT with the line: a header with `configs` that is no
// YAML, or a part that has no files.
absl::StatusOr<std::vector<CardConfig>> ParseDatasetCard(absl::string_view text);

}  // namespace muster::worker
