// Turns chunks of ranks' output into lines for people. Pure.
//
// Each rank's streams are followed by offset: what a reconnect brings a second time is dropped, and
// a line that arrives in pieces is printed once it is whole.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "absl/strings/string_view.h"
#include "muster/v1/job_service.pb.h"

namespace muster::cli {

class LogText {
 public:
  // With `prefix` each line starts with "a1.r0 | ": attempt 1, rank 0. `tame`: for a terminal,
  // which a program's output shall not steer (ForTerminal).
  explicit LogText(bool prefix, bool tame = false) : prefix_(prefix), tame_(tame) {}

  // The part of the chunk that was not seen before; offset, text and lost_bytes are cut to it.
  v1::StreamLogsResponse Fresh(v1::StreamLogsResponse chunk);

  // The whole lines that a chunk from Fresh() completes; where bytes are lost before it, a line
  // says so.
  std::string Lines(const v1::StreamLogsResponse& fresh);

  // At the end: lines that never got their newline.
  std::string Rest();

 private:
  using Key = std::tuple<uint32_t, uint32_t, bool>;  // attempt, rank, is_stderr
  struct Stream {
    bool seen = false;
    uint64_t next_offset = 0;
    std::string partial;
  };
  std::string Line(const Key& key, absl::string_view line) const;

  const bool prefix_;
  const bool tame_;
  std::map<Key, Stream> streams_;
};

}  // namespace muster::cli
