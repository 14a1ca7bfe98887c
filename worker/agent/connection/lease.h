// Whether this agent may still publish: true from the SEND of the last acknowledged heartbeat for
// lease_duration. No I/O.
//
// Counted from the send, so that the agent's lease always ends before the controller gives the
// worker up; on a clock that runs through suspension. A margin is kept for the rename that follows
// the answer "yes".
#pragma once

#include <cstdint>
#include <map>

#include "absl/time/time.h"

namespace muster::worker {

class Lease {
 public:
  // At the start of a session. What an earlier session earned is kept, but its heartbeats are
  // forgotten.
  void Begin(absl::Duration lease_duration);
  void Sent(uint64_t heartbeat_seq, absl::Duration now);
  // Acknowledges this heartbeat and all before it. False when it is not known.
  bool Acknowledged(uint64_t heartbeat_seq);

  bool Holds(absl::Duration now) const { return now < expires_; }
  // Long enough left to publish something.
  bool AllowsPublish(absl::Duration now) const { return now < expires_ - duration_ / 5; }
  absl::Duration expires() const { return expires_; }

 private:
  absl::Duration duration_;
  absl::Duration expires_ = -absl::InfiniteDuration();
  std::map<uint64_t, absl::Duration> sent_;  // not acknowledged yet; bounded by kMaxOutstanding
};

}  // namespace muster::worker
