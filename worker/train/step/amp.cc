#include "worker/train/step/amp.h"

#include <ATen/autocast_mode.h>

namespace muster::worker {

AutocastScope::AutocastScope(Precision precision, c10::Device device)
    : active_(precision == Precision::kBf16 || precision == Precision::kFp16),
      device_type_(device.type()) {
  if (!active_) return;
  was_enabled_ = at::autocast::is_autocast_enabled(device_type_);
  old_type_ = at::autocast::get_autocast_dtype(device_type_);
  at::autocast::set_autocast_enabled(device_type_, true);
  at::autocast::set_autocast_dtype(device_type_,
                                   precision == Precision::kFp16 ? at::kHalf : at::kBFloat16);
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  if (!active_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_type_, was_enabled_);
  at::autocast::set_autocast_dtype(device_type_, old_type_);
}

}  // namespace muster::worker
