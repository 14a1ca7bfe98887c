// How often jobs may be restarted: part of the independent model. It counts from the attempts and
// checkpoints that are on record and from what people asked for, and knows none of the controller's
// rules: a restart after a failure is charged, and only a commit above all before it gives the
// budget back, or a step above all before it of a job that has committed nothing. Beyond it a job
// may be tried again that could not use its checkpoints, as long as one worker was in all gangs
// that said so.
#pragma once

#include <cstdint>
#include <map>

#include "controller/model/snapshot.h"
#include "tests/sim/trace.h"

namespace muster::sim {

namespace mc = ::muster::controller;

class BudgetModel {
 public:
  explicit BudgetModel(Trace& trace) : trace_(trace) {}

  // The submit that was acknowledged with this job.
  void OnSubmitted(uint64_t job_id, const mc::RestartSettings& asked) {
    asked_.try_emplace(job_id, asked);
  }
  // A gang of the job was placed.
  void CheckPlacement(const mc::Snapshot& snapshot, const mc::Job& job) const;

 private:
  Trace& trace_;
  std::map<uint64_t, mc::RestartSettings> asked_;
};

}  // namespace muster::sim
