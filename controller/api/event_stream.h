// One client's events: those there are, in order, and when it follows those to come. Turned by a
// StreamPump.
#pragma once

#include <cstdint>

#include "controller/api/call.h"
#include "controller/api/out_stream.h"
#include "controller/engine/engine.h"
#include "muster/v1/job_service.pb.h"

namespace muster::controller {

struct EventStreamRequest {
  uint64_t job_id = 0;          // 0: of all jobs
  uint64_t after_sequence = 0;  // only later ones
  uint32_t tail = 0;            // of those there are only the newest so many; 0: all
  bool follow = false;
};

// Sends at most kPage events in a message and one message at a time: a slow client is never queued
// for. Each look costs one walk over the jobs, but only after something has happened.
class EventStream final : public OutStream<v1::StreamEventsResponse> {
 public:
  static constexpr size_t kPage = 500;

  EventStream(CallGate& gate, const Engine& engine, const EventStreamRequest& request)
      : OutStream(gate, "StreamEvents"), engine_(engine), request_(request) {}

  bool Turn() override;

 private:
  const Engine& engine_;
  EventStreamRequest request_;  // after_sequence and tail change with what was sent
};

}  // namespace muster::controller
