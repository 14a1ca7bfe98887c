// Carries the ranks' rendezvous operations to the controller's store and its answers back. Does
// no I/O but by its two callbacks.
//
// An operation waits here while the controller is away. When the same controller comes back, what
// was under way is asked again, unless asking twice would do it twice (add). A controller that
// restarted has lost its store: then operations of a rank that is still in rendezvous fail at once,
// so that the gang starts over instead of waiting for keys that are gone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "absl/time/time.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/agent/base/rank_key.h"
#include "worker/link/link_messages.h"

namespace muster::worker {

class StoreRelay {
 public:
  // Operations of one rank that may be under way at a time.
  static constexpr size_t kMaxPendingPerRank = 256;
  // Beyond an operation's own timeout, for the controller's answer to arrive.
  static constexpr absl::Duration kAnswerGrace = absl::Seconds(30);

  struct Callbacks {
    std::function<void(v1::WorkerMessage)> send;  // only called between SessionUp and SessionDown
    std::function<void(const RankKey&, const StoreReplyLine&)> reply;
  };
  explicit StoreRelay(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}

  // `running`: the rank's rendezvous is behind it.
  void Request(const v1::Fence& fence, uint32_t rank, bool running, StoreLine line,
               absl::Duration now);
  void OnReply(const v1::StoreReply& reply);
  void SessionUp(uint64_t term);
  void SessionDown() { up_ = false; }
  // The rank is gone: nobody waits for its answers.
  void Forget(const RankKey& key);
  // Ends operations that nobody answered in time.
  void Sweep(absl::Duration now);

 private:
  struct Pending {
    RankKey key;
    uint64_t line_id = 0;
    bool running = false;
    bool sent = false;
    absl::Duration deadline;
    v1::StoreRequest request;
  };

  void Send(Pending& pending);
  void Fail(const Pending& pending, const char* error, bool timed_out = false);
  // False when the store that the rank began its rendezvous with is gone.
  bool StoreIsTheSame(const Pending& pending);

  const Callbacks callbacks_;
  std::map<uint64_t, Pending> pending_;  // by request_id
  std::map<RankKey, uint64_t> first_term_;
  std::map<RankKey, size_t> pending_count_;
  uint64_t next_request_ = 1;
  uint64_t term_ = 0;
  bool up_ = false;
};

}  // namespace muster::worker
