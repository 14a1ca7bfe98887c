#include "worker/agent/connection/lease.h"

#include <algorithm>

namespace muster::worker {
namespace {

// A controller that acknowledges none of so many heartbeats has lost the lease long ago.
constexpr size_t kMaxOutstanding = 1024;

}  // namespace

void Lease::Begin(absl::Duration lease_duration) {
  duration_ = lease_duration;
  sent_.clear();
}

void Lease::Sent(uint64_t heartbeat_seq, absl::Duration now) {
  sent_[heartbeat_seq] = now;
  if (sent_.size() > kMaxOutstanding) sent_.erase(sent_.begin());
}

bool Lease::Acknowledged(uint64_t heartbeat_seq) {
  const auto it = sent_.find(heartbeat_seq);
  if (it == sent_.end()) return false;
  expires_ = std::max(expires_, it->second + duration_);
  sent_.erase(sent_.begin(), std::next(it));
  return true;
}

}  // namespace muster::worker
