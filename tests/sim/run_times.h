// How long jobs ran, by the machines' own clock and nobody's word: held against max_run_time, which
// ends no job too soon and none too late, whoever sets the wall clock.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "controller/model/snapshot.h"
#include "tests/sim/trace.h"

namespace muster::sim {

namespace mc = ::muster::controller;

class RunTimes {
 public:
  explicit RunTimes(Trace& trace) : trace_(trace) {}

  // `now` is since boot; `before` is null when the controller has just started.
  void OnPublished(const mc::Snapshot& snapshot, const mc::Snapshot* before, absl::Duration now);
  // Everything has healed: nothing runs on for long after its time.
  void CheckEnded(const mc::Snapshot& snapshot, absl::Duration now) const;

 private:
  struct Seen {
    absl::Duration from;
    absl::Duration until = absl::InfiniteDuration();
    bool exact = true;  // it began and ended while the controller lived
  };

  void Note(const mc::Attempt& attempt, bool exact, absl::Duration now);
  // At least so long.
  absl::Duration Ran(const mc::Job& job, absl::Duration now) const;
  bool IsExact(const mc::Job& job) const;

  Trace& trace_;
  std::map<std::pair<uint64_t, uint32_t>, Seen> seen_;  // by job and attempt
};

}  // namespace muster::sim
