// How a checkpoint gets out of a rank: the saver's view of the agent and the controller behind it.
// The trainer implements it over its link; tests fake it. Called from the saver's thread, and the
// waiting calls may block for as long as the controller is away; when the rank is about to leave,
// the implementation must make them return CANCELLED.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"

namespace muster::worker {

struct CheckpointNews {
  int64_t step = 0;
  double epoch = 0;
  std::string path;             // of the published folder
  std::string manifest_sha256;  // hex
  uint64_t bytes = 0;
  bool best = false;
  std::map<std::string, double> metrics;
};

class Publisher {
 public:
  virtual ~Publisher() = default;

  virtual void Begin(int64_t step) = 0;
  // Everything is written and synced: returns OK once the agent's lease allows the rename.
  virtual absl::Status AwaitPublish(const CheckpointNews& news) = 0;
  // Renamed and synced: returns OK once the controller has made it durable. FAILED_PRECONDITION:
  // refused, this rank is fenced. The folder stays in any case.
  virtual absl::Status AwaitCommitted(const CheckpointNews& news) = 0;
  virtual void Failed(int64_t step, const absl::Status& status) = 0;
  // A save of a later step wants the way: from now on the two waits for the checkpoint of this step
  // say what they have to say and return ABORTED at once. Any thread.
  virtual void Supersede(int64_t step) = 0;
};

}  // namespace muster::worker
