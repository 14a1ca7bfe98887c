#include "cli/commands/watch/log_replay.h"

namespace muster::cli {

bool LogReplay::LeftOut(const v1::StreamLogsResponse& chunk) {
  const Key stream = {chunk.attempt(), chunk.rank(), chunk.is_stderr()};
  const uint64_t end = chunk.offset() + chunk.text().size();
  const auto behind = behind_.find(chunk.rank());
  if (behind != behind_.end()) {
    const Place& last = behind->second;
    const bool later_attempt = chunk.attempt() > std::get<0>(last.stream);
    if (later_attempt || (stream == last.stream && end >= last.offset)) {
      behind_.erase(behind);
    } else if (taken_.count(stream) == 0) {
      return true;
    }
  }
  // A replay ends where it began: what comes before that moves nothing.
  if (behind_.count(chunk.rank()) == 0) last_[chunk.rank()] = {stream, end};
  taken_.insert(stream);
  return false;
}

}  // namespace muster::cli
