// What a tail of a log had left out, when a reconnect brings the log from its begin. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <tuple>

#include "muster/v1/job_service.pb.h"

namespace muster::cli {

// The controller sends a rank's log in the order in which it came there, attempt by attempt. A
// stream is one output of one attempt of one rank. As long as the repeated log has not reached the
// last chunk that the tail showed of a rank, a stream of this rank that was never shown is older
// than that chunk: the tail had left it out. After that chunk such a stream is news. Streams that
// were shown need no rule here: LogText drops what it has had of them.
class LogReplay {
 public:
  // Whether anything was taken.
  bool any() const { return !last_.empty(); }

  // From now on the log comes from its begin.
  void Begin() { behind_ = last_; }

  // Whether the tail had left this chunk out. Told of every chunk, before and after Begin().
  bool LeftOut(const v1::StreamLogsResponse& chunk);

 private:
  using Key = std::tuple<uint32_t, uint32_t, bool>;  // attempt, rank, is_stderr
  // The end of a chunk.
  struct Place {
    Key stream;
    uint64_t offset = 0;
  };

  std::set<Key> taken_;             // streams
  std::map<uint32_t, Place> last_;  // by rank: the end of what was taken of it
  // The same as it was at Begin(), of ranks that have not come to it again.
  std::map<uint32_t, Place> behind_;
};

}  // namespace muster::cli
