// What the training loop tells the world outside, and is told by it. The trainer implements it over
// its link to the agent; tests fake it. Called from the loop's thread; nothing here may block for
// long.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace muster::worker {

struct StopWish {
  bool stop = false;  // finish the step and leave
  bool save = false;  // save after the step: before leaving, or in between
};

class Supervisor {
 public:
  virtual ~Supervisor() = default;

  // This rank's view; the ranks agree on the step among themselves.
  virtual StopWish stop_wish() = 0;

  // Where the rank is, for people and for the hang watchdog. Phase as in ProgressLine.
  virtual void Progress(const std::string& phase, int64_t step, int64_t total_steps,
                        double epoch) = 0;

  // Numbers of one step, by the names of common/metrics/metric_names.h without their prefix.
  virtual void Metrics(int64_t step, const std::map<std::string, double>& values) = 0;

  // A checkpoint that was offered for resume turned out to be broken.
  virtual void CorruptCheckpoint(const std::string& path, int64_t step,
                                 const std::string& message) = 0;
};

}  // namespace muster::worker
