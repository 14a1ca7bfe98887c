// Something that is made for people while a run trains: pictures, tables, event files.
//
// Rank 0 alone has artifacts; the loop calls each after every step, with the model as that step
// left it. An artifact must not change the run: not the weights, not torch's default generators,
// not the training mode; it takes part in no collective; and when it cannot be written, it says so
// in the log and lets the run go on.
#pragma once

#include <cstdint>

#include "worker/train/step/evaluate.h"

namespace muster::worker {

class Artifact {
 public:
  virtual ~Artifact() = default;
  // `done` steps are done.
  virtual void AfterStep(int64_t done) = 0;
  // The run is over, and this is how its best weights did on the test set.
  virtual void AfterTest(const Evaluation& /*test*/) {}
};

}  // namespace muster::worker
