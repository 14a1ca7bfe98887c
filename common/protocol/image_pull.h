// How long a worker may take to pull a container image: its agent gives up then, and until then the
// controller counts no start of a job with an image as too slow. Half an hour brings 20 GB at
// 100 Mbit/s.
#pragma once

#include "absl/time/time.h"

namespace muster {

inline constexpr absl::Duration kImagePullPatience = absl::Minutes(30);

}  // namespace muster
