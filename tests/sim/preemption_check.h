// Whether stopping gangs leads anywhere: of those that the controller stops so that another job
// gets their slots, or so that they come back larger, none may go round and round.
//
// - A gang is preempted for a job of strictly higher priority, and shrinks for one that is not of
//   lower priority.
// - It makes way for the same job again only after that one was placed: what it gave up was used.
// - When nothing else happens meanwhile, a gang that was stopped to grow comes back larger; in
//   vain it may be stopped twice in a row.
// - It is stopped at most kMostInVain times in a row without a step done between. A stop for a job
//   that lost its last attempt by a failure which its restart budget counts does not count: what
//   its dead ranks leave behind may hold the slots that it had.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "controller/model/snapshot.h"
#include "tests/sim/trace.h"

namespace muster::sim {

namespace mc = ::muster::controller;

class PreemptionCheck {
 public:
  // No simulated world has so many jobs of higher priority that come one after the other.
  static constexpr uint32_t kMostInVain = 6;
  static constexpr uint32_t kMostGrowthInVain = 2;

  struct Counts {
    uint64_t preempted = 0;
    uint64_t shrunk = 0;
    uint64_t grown = 0;
    uint64_t came_back_larger = 0;  // of those that were stopped to grow
    uint32_t most_in_vain = 0;      // stops of one gang in a row without a step between
  };

  explicit PreemptionCheck(Trace& trace) : trace_(trace) {}

  // `before`: null at a start of the controller.
  void OnPublished(const mc::Snapshot& snapshot, const mc::Snapshot* before);
  const Counts& counts() const { return counts_; }

 private:
  // What is remembered of one job.
  struct Past {
    size_t events = 0;              // seen
    int64_t best_step = 0;          // of all its attempts
    uint32_t in_vain = 0;           // stops since that grew
    uint32_t growth_in_vain = 0;    // in a row
    uint32_t ranks_when_grown = 0;  // while it is stopped to grow; 0: it is not
    bool others_moved = false;      // since then
    uint32_t attempt = 0;           // the newest that was seen
  };
  void OnEvent(const mc::Snapshot& snapshot, const mc::Snapshot* before, const mc::Job& job,
               const mc::JobEvent& event);
  void OnStopped(Past& past, const mc::Job& job, const mc::Job* winner);
  void OnPlaced(Past& past, const mc::Job& job);
  void CheckPriorities(const mc::Snapshot& snapshot, const mc::Snapshot* before, const mc::Job& job,
                       uint64_t other, bool equal_will_do);

  Trace& trace_;
  Counts counts_;
  std::map<uint64_t, Past> past_;
  // Who made way for whom, with the other one's newest attempt then.
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> made_way_;
  std::string workers_;  // as they were: who takes work, with how many slots
};

}  // namespace muster::sim
