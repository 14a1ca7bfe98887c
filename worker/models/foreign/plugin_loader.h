// Loads networks out of shared libraries (plugin.h).
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/models/base/model.h"

namespace muster::worker {

struct PluginConfig {
  std::string path;   // of the library
  std::string model;  // which of its networks; empty: the only one
  std::map<std::string, std::string> options;
  bool tokens = false;  // samples are rows of tokens
};

// The caller has made sure that the library may run here. All codes name it: INVALID_ARGUMENT when
// it is no plug-in, has no such network, or makes one with tensors elsewhere or without names;
// FAILED_PRECONDITION when it was built against another plugin.h or torch. Throws what the plug-in
// throws.
absl::StatusOr<std::unique_ptr<Model>> LoadPlugin(const PluginConfig& config,
                                                  const ModelContext& context);

}  // namespace muster::worker
