// Rank, checkpoint, verify and delete events, and notices, until the controller has them: numbered,
// kept, repeated. (P)
//
// In memory only: the ranks that they speak of die with the agent, and the controller learns of
// that by the new incarnation. A COMMIT is kept until its CheckpointAck, which the rank waits for,
// even when its EventAck came earlier.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "muster/v1/worker_service.pb.h"

namespace muster::worker {

class EventOutbox {
 public:
  // Events of lost importance (a checkpoint that begins) are not taken beyond this many.
  static constexpr size_t kMaxMinorEvents = 1000;

  // Gives the event its number; returns it as it is to be sent, now or by the next
  // Unacknowledged(). nullptr: minor, and there are too many already.
  const v1::WorkerMessage* Add(v1::WorkerMessage event);

  // Of all events up to this one; void for a number that was never given.
  void OnEventAck(uint64_t event_seq);
  void OnCheckpointAck(const v1::CheckpointAck& ack);

  // In order; to be sent again at the start of a session.
  std::vector<const v1::WorkerMessage*> Unacknowledged() const;
  bool empty() const { return events_.empty(); }
  size_t size() const { return events_.size(); }

 private:
  std::map<uint64_t, v1::WorkerMessage> events_;
  uint64_t next_seq_ = 1;
};

}  // namespace muster::worker
