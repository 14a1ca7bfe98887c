// The second half of a call that changes something: its event goes to the engine, and the call is
// answered when that is durable or refused. For the handlers of JobService.
#pragma once

#include <utility>

#include "absl/status/statusor.h"
#include "controller/api/calls/service_call.h"
#include "controller/engine/engine.h"

namespace muster::controller {

// Posts `event`, and ends the call with its outcome once `fill(result)` has written the answer, on
// the engine's thread. An event that is none ends the call with its status.
template <typename Event, typename Fill>
void PostAndAnswer(Engine& engine, absl::StatusOr<Event> event, UnaryCall* call, Fill fill) {
  if (!event.ok()) {
    call->Done(event.status());
    return;
  }
  engine.Post(*std::move(event), [call, fill = std::move(fill)](const EventResult& result) {
    fill(result);
    call->Done(result.status);
  });
}

}  // namespace muster::controller
