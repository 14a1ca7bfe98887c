// One client's events: those there are, in order, and when it follows those to come. Turned by a
// StreamPump.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "controller/api/calls/service_call.h"
#include "controller/api/streams/out_stream.h"
#include "controller/engine/engine.h"
#include "muster/v1/job_service.pb.h"

namespace muster::controller {

struct EventStreamRequest {
  uint64_t job_id = 0;          // 0: of all jobs
  uint64_t after_sequence = 0;  // only later ones
  uint32_t tail = 0;            // of those there are only the newest so many; 0: all
  bool follow = false;
  MayRead may_read = nullptr;  // only events of jobs of these projects; null: of all
};

// Sends at most kPage events in a message and one message at a time: a slow client is never queued
// for, and a fast one gets the next page as soon as it has read the last. A look costs as much as
// what it sends.
class EventStream final : public OutStream<v1::StreamEventsResponse> {
 public:
  static constexpr size_t kPage = 500;
  // Of which only some may be read; so many are looked at for one page.
  static constexpr size_t kMostSeen = 8 * kPage;

  EventStream(CallGate& gate, const Engine& engine, const EventStreamRequest& request)
      : OutStream(gate, "StreamEvents"),
        engine_(engine),
        request_(request),
        after_(request.after_sequence) {}

  bool Turn() override;

 private:
  void OnDrained() override { SendNext(); }
  // The next page, if there is one and the last one has left. By the pump's thread or the stream's.
  void SendNext() MUSTER_EXCLUDES(mutex_);
  bool IsReadable(const Snapshot& snapshot, uint64_t job_id) MUSTER_REQUIRES(mutex_);
  absl::Status FillFromAll(const Snapshot& snapshot, v1::StreamEventsResponse& page)
      MUSTER_REQUIRES(mutex_);
  void FillFromJob(const Snapshot& snapshot, const Job& job, v1::StreamEventsResponse& page)
      MUSTER_REQUIRES(mutex_);

  const Engine& engine_;
  Mutex mutex_;
  EventStreamRequest request_ MUSTER_GUARDED_BY(mutex_);  // the tail is asked for once
  uint64_t after_ MUSTER_GUARDED_BY(mutex_);              // up to this one all was sent
  bool looked_at_all_ MUSTER_GUARDED_BY(mutex_) = false;  // by the last look
  // Projects of archived jobs that were asked about; empty: it is not there.
  std::map<uint64_t, std::string> archived_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::controller
