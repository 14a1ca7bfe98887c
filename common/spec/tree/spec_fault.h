// What is wrong with a spec, all of it at once: each fault with its path and line. Plain data.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

struct SpecFault {
  // `train.optimizer.lrr`; empty: the document itself.
  std::string path;
  // 1-based; 0: not in the text (a value given by --set, or one that is missing).
  int line = 0;
  std::string message;
};

// "train.batch_size: must be ...", with "line 4: " before it when the line is known.
std::string FaultText(const SpecFault& fault);

// OK without faults. Else INVALID_ARGUMENT that lists them by line, at most `max_shown`, then how
// many more there are. `source` names the file, or what it was ("spec").
absl::Status FaultStatus(absl::string_view source, std::vector<SpecFault> faults,
                         size_t max_shown = 1000);

// The nearest of `names`, or empty when none is near.
std::string NearestName(absl::string_view given, const std::vector<std::string>& names);

// `text` cut for a message.
std::string ShownValue(absl::string_view text);

}  // namespace muster
