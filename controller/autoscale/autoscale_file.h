// The file of `musterd --autoscale`: which pools grow and shrink, and by whom. Pure, but for
// LoadAutoscale, which reads the file.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/fs/file_system.h"
#include "controller/autoscale/kubernetes_scaler.h"
#include "controller/policy/autoscale/scale_types.h"

namespace muster::controller {

struct ScaledPool {
  PoolScaling scaling;
  // One of the two: by a program, or by Kubernetes when that is empty.
  std::vector<std::string> command;
  absl::Duration command_timeout;
  KubernetesTarget target;
};

struct AutoscaleSettings {
  absl::Duration every = absl::Seconds(5);  // from one look to the next
  KubernetesAccess kubernetes;
  std::vector<ScaledPool> pools;  // empty: nothing is scaled
};

// INVALID_ARGUMENT lists all that is wrong, with keys and lines. `source`: the file's name.
absl::StatusOr<AutoscaleSettings> ParseAutoscale(absl::string_view text, absl::string_view source);

// The same, and NOT_FOUND.
absl::StatusOr<AutoscaleSettings> LoadAutoscale(FileSystem& fs, const std::string& path);

}  // namespace muster::controller
