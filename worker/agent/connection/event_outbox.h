// Rank, checkpoint, verify and delete events, and notices, until the controller has them: numbered,
// kept, repeated. No I/O.
//
// In memory only: the ranks that they speak of die with the agent, and the controller learns of
// that by the new incarnation. A COMMIT is kept until its CheckpointAck, which the rank waits for,
// even when its EventAck came earlier.
#pragma once

#include <cstdint>
#include <map>

#include "muster/v1/worker_service.pb.h"

namespace muster::worker {

class EventOutbox {
 public:
  // Events that nothing hangs on (a checkpoint began, or failed) are not taken beyond this many.
  static constexpr size_t kMaxMinorEvents = 1000;

  // Gives the event its number. False: minor, and there are too many already.
  bool Add(v1::WorkerMessage event);

  // Of all events up to this one; void for a number that was never given.
  void OnEventAck(uint64_t event_seq);
  void OnCheckpointAck(const v1::CheckpointAck& ack);

  // The first event after that number, as it is to be sent; nullptr: none.
  const v1::WorkerMessage* After(uint64_t seq) const;
  // The highest number that an EventAck named.
  uint64_t acknowledged() const { return acknowledged_; }
  bool empty() const { return events_.empty(); }
  size_t size() const { return events_.size(); }

 private:
  std::map<uint64_t, v1::WorkerMessage> events_;
  uint64_t next_seq_ = 1;
  uint64_t acknowledged_ = 0;
};

}  // namespace muster::worker
