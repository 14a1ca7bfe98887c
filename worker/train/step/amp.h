// Mixed precision: inside the scope, operators that profit compute in bf16 or fp16; weights,
// gradients and the optimizer stay fp32.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "worker/train/run/recipe.h"

namespace muster::worker {

// Autocast for this thread while it lives (nothing for fp32 and tf32). Step the optimizer outside
// of it: the cache of cast weights does not notice changes in place, and is dropped when the
// outermost scope ends.
class AutocastScope {
 public:
  AutocastScope(Precision precision, c10::Device device);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  const bool active_;
  const c10::DeviceType device_type_;
  bool was_enabled_ = false;
  c10::ScalarType old_type_ = c10::ScalarType::Float;
};

}  // namespace muster::worker
