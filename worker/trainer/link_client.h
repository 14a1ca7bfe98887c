// The rank's end of the link to its agent: sends lines, waits for their answers, and learns that it
// should stop.
//
// A reader thread takes the agent's lines apart and also watches for SIGTERM, which must be blocked
// in every thread (main does so). All functions may be called from any thread. Every wait ends
// early with CANCELLED once the rank was asked to leave or Cancel was called, and with UNAVAILABLE
// once the agent is gone. Knows no torch.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/unique_fd.h"
#include "worker/link/link_messages.h"

namespace muster::worker {

class LinkClient {
 public:
  // Takes the connected stream socket and says hello. UNAVAILABLE when the agent is not there.
  static absl::StatusOr<std::unique_ptr<LinkClient>> Start(UniqueFd socket, uint32_t rank);
  ~LinkClient();

  // Writes one line. Blocks while the agent does not read. UNAVAILABLE: the agent is gone.
  absl::Status Send(const RankLine& line) MUSTER_EXCLUDES(write_mutex_);

  // Sends a store operation under an id of its own and waits for the reply. DEADLINE_EXCEEDED: the
  // store's own timeout, or ours, a little later; UNAVAILABLE: the store said so.
  absl::StatusOr<StoreReplyLine> Request(StoreLine line);

  // Sends numbers under the next sequence.
  void SendMetrics(MetricsLine line);
  // Until all numbers sent so far are in the agent's spool.
  absl::Status AwaitAcks(absl::Duration timeout);

  // Until the agent says that a checkpoint of `step` may be renamed; that its row is durable
  // (FAILED_PRECONDITION: refused). These two wait on after a wish to stop, for saving may be part
  // of it; only Cancel ends them.
  absl::Status AwaitPublish(int64_t step);
  absl::Status AwaitCommitted(int64_t step);

  struct Stop {
    bool wanted = false;
    bool save = false;
    std::string reason;
  };
  Stop stop() const;
  // Ends all waits of this process, now and from now on.
  void Cancel();

 private:
  LinkClient(UniqueFd socket, UniqueFd signals, UniqueFd wake);

  void ReadLoop();
  bool ReadSocket();  // false: the stream has ended
  void Take(AgentLine line);
  absl::Status WhyNotLocked(bool stop_counts) const MUSTER_REQUIRES(mutex_);

  const UniqueFd socket_;
  const UniqueFd signals_;  // signalfd of SIGTERM
  const UniqueFd wake_;     // eventfd: the destructor wants the reader back
  struct Buffer;
  const std::unique_ptr<Buffer> buffer_;  // the reader's alone

  Mutex
      write_mutex_;  // keeps lines whole; held while writing to the socket, which is what it guards

  mutable Mutex mutex_;
  CondVar changed_;
  bool gone_ MUSTER_GUARDED_BY(mutex_) = false;
  bool cancelled_ MUSTER_GUARDED_BY(mutex_) = false;
  Stop stop_ MUSTER_GUARDED_BY(mutex_);
  uint64_t next_request_ MUSTER_GUARDED_BY(mutex_) = 1;
  std::map<uint64_t, StoreReplyLine> replies_ MUSTER_GUARDED_BY(mutex_);
  std::set<uint64_t> waiting_ MUSTER_GUARDED_BY(mutex_);
  uint64_t last_metrics_ MUSTER_GUARDED_BY(mutex_) = 0;
  uint64_t acknowledged_ MUSTER_GUARDED_BY(mutex_) = 0;
  std::set<int64_t> publishable_ MUSTER_GUARDED_BY(mutex_);
  std::map<int64_t, std::string> committed_ MUSTER_GUARDED_BY(mutex_);

  std::thread reader_;
};

}  // namespace muster::worker
