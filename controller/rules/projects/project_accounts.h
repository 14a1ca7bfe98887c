// What each project may use, uses and has used, for people to read. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "controller/model/snapshot.h"

namespace muster::controller {

struct ProjectAccount {
  Project project;               // with the defaults when nobody has set it
  ProjectUse use;                // now
  double used_slot_seconds = 0;  // decayed, live attempts included
};

// Of one project, known or not. `now` here and below is the time since boot. Cost: active jobs.
ProjectAccount AccountOf(const Snapshot& snapshot, const std::string& name, absl::Duration now,
                         absl::Duration half_life);

// All projects that were set, have used something or have jobs, by name. Cost: active jobs.
std::vector<ProjectAccount> AccountsOf(const Snapshot& snapshot, absl::Duration now,
                                       absl::Duration half_life);

}  // namespace muster::controller
