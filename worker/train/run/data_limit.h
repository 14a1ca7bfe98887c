// Whether a run waited for its data, and what would have helped: one sentence for people. Pure.
#pragma once

#include <string>

#include "worker/data/base/stage_seconds.h"

namespace muster::worker {

struct DataTimes {
  double seconds = 0;       // of all steps
  double wait_seconds = 0;  // of them, in which a step waited for its batch
  StageSeconds busy;        // of the threads that made the batches
  int threads = 0;          // so many; 0: the training thread made them
};

// Such as "The device waited 12 % of the time for data, of which decoding took most: 3 more threads
// would end that." Empty: there is nothing to say of it, since no step was made.
std::string DataLimitText(const DataTimes& times);

}  // namespace muster::worker
