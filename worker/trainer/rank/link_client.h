// The rank's end of the link to its agent: sends lines, waits for their answers, and learns that it
// should stop.
//
// What is sent is queued and never blocks the caller, whether the agent reads or not. The queue is
// bounded: of where the rank is only the newest word waits, and numbers wait in a list of their
// own, kept until the agent has acknowledged them; beyond kMostKept the oldest are given up, and
// the agent is told how many were. A thread writes what the socket did not take at once, takes the
// agent's lines apart, and watches for SIGTERM, which must be blocked in every thread (main does
// so). All functions may be called from any thread. Every wait ends early with CANCELLED once the
// rank was asked to leave or Cancel was called, and with UNAVAILABLE once the agent is gone. Knows
// no torch.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/deadline.h"
#include "common/base/mutex.h"
#include "common/base/unique_fd.h"
#include "worker/link/link_messages.h"

namespace muster::worker {

class LinkClient {
 public:
  // Lines of numbers that wait for their acknowledgement.
  static constexpr size_t kMostKept = 4096;
  // Until numbers that the agent could not take are sent again.
  static constexpr absl::Duration kAgainAfter = absl::Seconds(1);
  // How long the destructor waits for an agent that does not read.
  static constexpr absl::Duration kLastWords = absl::Seconds(10);

  // Takes the connected stream socket and says hello. UNAVAILABLE when the agent is not there.
  static absl::StatusOr<std::unique_ptr<LinkClient>> Start(UniqueFd socket, uint32_t rank);
  ~LinkClient();

  // Queues one line, which is not of numbers. UNAVAILABLE: the agent is gone.
  absl::Status Send(const RankLine& line);

  // Sends a store operation under an id of its own and waits for the reply. DEADLINE_EXCEEDED: the
  // store's own timeout, or ours, a little later; UNAVAILABLE: the store said so.
  absl::StatusOr<StoreReplyLine> Request(StoreLine line);

  // Queues numbers under the next sequence.
  void SendMetrics(MetricsLine line);
  // Until all numbers sent so far are in the agent's spool.
  absl::Status AwaitAcks(absl::Duration timeout);

  // Until the agent says that a checkpoint of `step` may be renamed; that its row is durable
  // (FAILED_PRECONDITION: refused). These two wait on after a request to stop, for saving may be
  // part of it; only Cancel ends them.
  absl::Status AwaitPublish(int64_t step);
  absl::Status AwaitCommitted(int64_t step);

  struct Stop {
    bool wanted = false;
    bool save = false;
    std::string reason;
  };
  Stop stop() const;
  // From now on the two waits for the checkpoint of this step end with ABORTED, unless what they
  // wait for has come.
  void Supersede(int64_t step);
  // Ends all waits of this process, now and from now on.
  void Cancel();

 private:
  LinkClient(UniqueFd socket, UniqueFd signals, UniqueFd wake);

  void Loop();
  bool ReadSocket();  // false: the stream has ended
  void Take(AgentLine line);
  void TakeAckLocked(const AckLine& ack) MUSTER_REQUIRES(mutex_);
  void WriteLocked() MUSTER_REQUIRES(mutex_);
  bool HasNextLocked() MUSTER_REQUIRES(mutex_);  // true: it stands in unwritten_
  void WakeLoop();
  absl::Status WhyNotLocked(bool stop_counts) const MUSTER_REQUIRES(mutex_);
  absl::Status WhyNotLocked(int64_t step) const MUSTER_REQUIRES(mutex_);

  const UniqueFd socket_;
  const UniqueFd signals_;  // signalfd of SIGTERM
  const UniqueFd wake_;     // eventfd: there is something to write, or nothing more to do
  struct Buffer;
  const std::unique_ptr<Buffer> buffer_;  // the thread's alone

  mutable Mutex mutex_;
  CondVar changed_;
  bool gone_ MUSTER_GUARDED_BY(mutex_) = false;
  bool cancelled_ MUSTER_GUARDED_BY(mutex_) = false;
  Stop stop_ MUSTER_GUARDED_BY(mutex_);
  uint64_t next_request_ MUSTER_GUARDED_BY(mutex_) = 1;
  std::map<uint64_t, StoreReplyLine> replies_ MUSTER_GUARDED_BY(mutex_);
  std::set<uint64_t> waiting_ MUSTER_GUARDED_BY(mutex_);
  std::string unwritten_ MUSTER_GUARDED_BY(mutex_);  // lines that the socket did not take yet
  std::optional<ProgressLine> progress_ MUSTER_GUARDED_BY(mutex_);  // comes next
  std::deque<MetricsLine> kept_ MUSTER_GUARDED_BY(mutex_);          // not acknowledged; in order
  size_t next_kept_ MUSTER_GUARDED_BY(mutex_) = 0;                  // of these, to be written
  std::optional<Deadline> again_ MUSTER_GUARDED_BY(mutex_);         // until then none is written
  uint64_t last_metrics_ MUSTER_GUARDED_BY(mutex_) = 0;
  uint64_t acknowledged_ MUSTER_GUARDED_BY(mutex_) = 0;
  bool leaving_ MUSTER_GUARDED_BY(mutex_) = false;  // the destructor runs
  std::set<int64_t> publishable_ MUSTER_GUARDED_BY(mutex_);
  std::map<int64_t, std::string> committed_ MUSTER_GUARDED_BY(mutex_);
  std::set<int64_t> superseded_ MUSTER_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace muster::worker
