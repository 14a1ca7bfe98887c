// Who brings workers and takes them away: a cloud's group, a cluster. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "controller/policy/autoscale/scale_types.h"

namespace muster::controller {

class Scaler {
 public:
  virtual ~Scaler() = default;

  // How many workers it has been told to have; none: it cannot say. Errors as ScaleTo's.
  virtual absl::StatusOr<std::optional<uint32_t>> Asked() = 0;

  // Has it have decision.wanted workers; of those that go decision.leaving alone may be running.
  // Repeated with the same numbers it changes nothing. UNAVAILABLE and DEADLINE_EXCEEDED may pass;
  // PERMISSION_DENIED, NOT_FOUND, FAILED_PRECONDITION: somebody must mend something; CANCELLED by
  // Stop. A message names what was asked and holds no secret.
  virtual absl::Status ScaleTo(const PoolDecision& decision) = 0;

  // After a failure: it asked not to be asked again before so long; zero: it did not.
  virtual absl::Duration asked_to_wait() const { return absl::ZeroDuration(); }

  // Ends a call under way within about a second, and later ones at once. From any thread.
  virtual void Stop() = 0;
};

}  // namespace muster::controller
