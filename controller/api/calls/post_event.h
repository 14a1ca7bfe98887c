// The second half of a call that changes something: its event goes to the engine, and the call is
// answered when that is durable or refused. For the handlers of JobService.
#pragma once

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/api/calls/known_jobs.h"
#include "controller/api/calls/service_call.h"
#include "controller/engine/engine.h"

namespace muster::controller {

// Posts `event`, and ends the call with its outcome once `fill(result)` has written the answer, on
// the engine's thread. An event that is none ends the call with its status. `jobs`: those that the
// event needs; archived ones are restored first.
template <typename Event, typename Fill>
void PostAndAnswer(Engine& engine, KnownJobs& jobs, absl::StatusOr<Event> event, UnaryCall* call,
                   Fill fill) {
  absl::StatusOr<RestoreList> restore;
  if (event.ok()) restore = jobs.WhatToRestore();
  if (!event.ok() || !restore.ok()) {
    call->Done(event.ok() ? restore.status() : event.status());
    return;
  }
  std::vector<Engine::Posted> post;
  post.push_back({.event = *std::move(event),
                  .done =
                      [call, fill = std::move(fill)](const EventResult& result) {
                        fill(result);
                        call->Done(result.status);
                      },
                  .restore = *std::move(restore)});
  engine.PostAll(std::move(post));
}

// For one that needs no jobs.
template <typename Event, typename Fill>
void PostAndAnswer(Engine& engine, absl::StatusOr<Event> event, UnaryCall* call, Fill fill) {
  KnownJobs none(engine);
  PostAndAnswer(engine, none, std::move(event), call, std::move(fill));
}

}  // namespace muster::controller
