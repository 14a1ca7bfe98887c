// What `muster top` shows: the workers with what of them is in use, and the jobs that hold slots.
// Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "muster/v1/job_service.pb.h"

namespace muster::cli {

struct TopPicture {
  std::vector<v1::WorkerInfo> workers;
  std::vector<v1::JobSummary> jobs;  // that hold slots
  size_t waiting = 0;                // jobs that do not
  bool more_waiting = false;         // and perhaps more
};

// Lines without newlines, none wider than `width`. At most `most_rows` rows of each table (0: all);
// what is left out is counted.
std::vector<std::string> TopLines(const TopPicture& picture, absl::Time now, size_t width,
                                  size_t most_rows);

}  // namespace muster::cli
