// What the training loop tells the world outside, and is told by it. The trainer implements it over
// its link to the agent; tests fake it. Called from the loop's thread, before there is a loop
// from the one that watches how data are loaded, and CorruptCheckpoint from the one that reads a
// checkpoint meanwhile (rank_zero_work.h); nothing here may block for long.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace muster::worker {

struct RequestedStop {
  bool stop = false;  // finish the step and leave
  bool save = false;  // save after the step: before leaving, or in between
};

class RunHost {
 public:
  virtual ~RunHost() = default;

  // This rank's view; the ranks agree on the step among themselves.
  virtual RequestedStop requested_stop() = 0;

  // Where the rank is, for people and for the hang watchdog. Phase as in ProgressLine.
  virtual void Progress(const std::string& phase, int64_t step, int64_t total_steps,
                        double epoch) = 0;

  // The phase that was last said goes on: a long evaluation, say, or a wait that has its own end.
  // Else who looks for hung ranks would see one that stands still. At most about once a second.
  virtual void KeepAlive() = 0;

  // Numbers of one step, by the names of common/metrics/metric_names.h without their prefix.
  virtual void Metrics(int64_t step, const std::map<std::string, double>& values) = 0;

  // How much memory the run will need, what for, and what to change: for the message of a rank that
  // its limit ends, which can say nothing any more.
  virtual void MemoryEstimated(const std::string& need) = 0;

  // A checkpoint that was offered for resume turned out to be broken: its bytes do not match.
  virtual void CorruptCheckpoint(const std::string& path, int64_t step,
                                 const std::string& message) = 0;
  // It could not be read here, which says nothing of it.
  virtual void UnreadCheckpoint(const std::string& path, int64_t step,
                                const std::string& message) = 0;
};

}  // namespace muster::worker
