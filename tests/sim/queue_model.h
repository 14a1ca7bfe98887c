// What was promised of when jobs may start and how long they may run: arrays, dependencies, begin
// times, deadlines and maximum run times. Part of the independent model: it is fed with what people
// asked for and were acknowledged, and knows none of the controller's rules.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "controller/model/snapshot.h"
#include "controller/model/types/events.h"
#include "tests/sim/trace.h"

namespace muster::sim {

namespace mc = ::muster::controller;

class QueueModel {
 public:
  explicit QueueModel(Trace& trace) : trace_(trace) {}

  // The submit that was acknowledged with this (first) job.
  void OnSubmitted(uint64_t job_id, const mc::SchedulingSettings& asked,
                   const std::optional<mc::ArrayRange>& array);

  // A gang was placed at `now`; `before` is the version before that one.
  void CheckPlacement(const mc::Snapshot& snapshot, const mc::Snapshot& before, const mc::Job& job,
                      absl::Time now) const;
  void Check(const mc::Snapshot& snapshot) const;
  // Everything has healed: deadlines hold to the minute.
  void CheckLimits(const mc::Snapshot& snapshot, absl::Time now) const;

 private:
  struct Asked {
    mc::SchedulingSettings scheduling;
    uint64_t array_id = 0;
    uint32_t index = 0;
  };
  // Whether what the job waits for has happened.
  bool IsMet(const mc::Snapshot& snapshot, const mc::SchedulingSettings::Dependency& other) const;
  void CheckArrays(const mc::Snapshot& snapshot) const;

  Trace& trace_;
  std::map<uint64_t, Asked> asked_;            // by job
  std::map<uint64_t, mc::ArrayRange> arrays_;  // by first job
};

}  // namespace muster::sim
