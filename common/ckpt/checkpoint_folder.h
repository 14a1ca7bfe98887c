// The names of checkpoint folders. Pure.
//
//   step-120.a2.g1             published: step 120, written by attempt 2, generation 1
//   step-120.a2.g1.9f3c.tmp    being written; nobody reads it, a later attempt removes it
//
// Attempt and generation stand in the name so that a fenced writer can never touch the folder of
// the attempt that replaced it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

struct CheckpointFolder {
  int64_t step = 0;
  uint32_t attempt = 0;
  uint32_t generation = 0;
  std::string nonce;  // [0-9a-z]{1,32}; empty: published

  bool temporary() const { return !nonce.empty(); }
  friend bool operator==(const CheckpointFolder&, const CheckpointFolder&) = default;
};

std::string FolderName(const CheckpointFolder& folder);

// Nothing unless `name` (without parent folders) is exactly what FolderName would give.
std::optional<CheckpointFolder> ParseFolderName(absl::string_view name);

}  // namespace muster
