#include "worker/agent/connection/event_outbox.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace muster::worker {
namespace {

bool IsCommit(const v1::WorkerMessage& event) {
  return event.has_checkpoint_event() &&
         event.checkpoint_event().kind() == v1::CheckpointEvent::COMMIT;
}

bool IsMinor(const v1::WorkerMessage& event) {
  return event.has_checkpoint_event() &&
         (event.checkpoint_event().kind() == v1::CheckpointEvent::BEGIN ||
          event.checkpoint_event().kind() == v1::CheckpointEvent::FAILED);
}

bool SameGang(const v1::Fence& a, const v1::Fence& b) {
  return a.job_id() == b.job_id() && a.attempt() == b.attempt() && a.generation() == b.generation();
}

}  // namespace

bool EventOutbox::Add(v1::WorkerMessage event) {
  if (IsMinor(event) && events_.size() >= kMaxMinorEvents) return false;
  const uint64_t seq = next_seq_++;
  event.set_event_seq(seq);
  events_.emplace(seq, std::move(event));
  return true;
}

void EventOutbox::OnEventAck(uint64_t event_seq) {
  if (event_seq >= next_seq_) return;
  acknowledged_ = std::max(acknowledged_, event_seq);
  const auto end = events_.upper_bound(event_seq);
  for (auto it = events_.begin(); it != end;) {
    it = IsCommit(it->second) ? std::next(it) : events_.erase(it);
  }
}

void EventOutbox::OnCheckpointAck(const v1::CheckpointAck& ack) {
  for (auto it = events_.begin(); it != events_.end();) {
    const bool answered = IsCommit(it->second) &&
                          SameGang(it->second.checkpoint_event().fence(), ack.fence()) &&
                          it->second.checkpoint_event().step() == ack.step();
    it = answered ? events_.erase(it) : std::next(it);
  }
}

const v1::WorkerMessage* EventOutbox::After(uint64_t seq) const {
  const auto next = events_.upper_bound(seq);
  return next == events_.end() ? nullptr : &next->second;
}

}  // namespace muster::worker
