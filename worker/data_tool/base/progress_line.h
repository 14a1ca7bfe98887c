// How far a command is, on stderr: a bar that is redrawn on a terminal, else a line every few
// seconds.
//
//   verify  [##########..........]  52 %  26,104 of 50,000  3,120/s  8s left
//
// Any thread may count; who counts when it is time draws.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "common/base/mutex.h"

namespace muster::worker {

class ProgressLine {
 public:
  // `total` 0: it is not known. Silent where `shown` is false, and for what is done within a second
  // when stderr is no terminal.
  ProgressLine(std::string what, uint64_t total, bool shown = true);
  ~ProgressLine();  // takes the bar away
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Add(uint64_t count = 1);
  void SetDone(uint64_t done);

 private:
  using Clock = std::chrono::steady_clock;
  void DrawIfTime();
  void Draw() MUSTER_REQUIRES(mutex_);

  const std::string what_;
  const uint64_t total_;
  const bool shown_;
  const bool terminal_;
  const Clock::time_point begun_;
  std::atomic<uint64_t> done_ = 0;
  std::atomic<Clock::duration::rep> next_draw_;  // since begun_
  Mutex mutex_;
  bool drawn_ MUSTER_GUARDED_BY(mutex_) = false;
};

// The text of the line. Pure. `seconds` since the beginning.
std::string ProgressText(absl::string_view what, uint64_t done, uint64_t total, double seconds,
                         bool bar);

// "1,234,567".
std::string WithCommas(uint64_t number);

}  // namespace muster::worker
