// Turns chunks of ranks' output into lines for people. Pure.
//
// Each rank's streams are followed by offset: what a reconnect brings a second time is dropped, and
// a line that arrives in pieces is printed once it is whole.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/string_view.h"
#include "muster/v1/job_service.pb.h"

namespace muster::cli {

class LogText {
 public:
  using Wanted = std::function<bool(absl::string_view line)>;
  struct Options {
    bool origin = false;  // each line starts with "a1.r0 | ": attempt 1, rank 0
    bool times = false;   // each line starts with when it was written
    bool tame = false;    // for a terminal, which a program's output shall not steer (ForTerminal)
    Wanted wanted;        // where there is one: only such lines, as the rank wrote them
  };
  explicit LogText(Options options) : options_(std::move(options)) {}

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
    int64_t written_ms = 0;  // of the newest chunk
  };
  std::string Line(const Key& key, int64_t written_ms, absl::string_view line) const;
  // The same for a line of the rank's, unless it is not wanted.
  std::string Written(const Key& key, int64_t written_ms, absl::string_view line) const;

  const Options options_;
  std::map<Key, Stream> streams_;
};

}  // namespace muster::cli
