// Which jobs other jobs were submitted to begin from: those must stay as long as these are there.
// Pure.
#pragma once

#include <cstdint>
#include <set>

#include "controller/model/snapshot.h"

namespace muster::controller {

// The jobs whose checkpoints the job was submitted to begin from (JobSettings::resume_from).
std::set<uint64_t> SourcesOf(const Snapshot& snapshot, const Job& job);

// Counts the job in Snapshot::begun_from, or takes it away: once each.
void CountSources(Snapshot& snapshot, const Job& job, int sign);

// Whether a job that is there was submitted to begin from this one's checkpoints.
bool IsBegunFrom(const Snapshot& snapshot, uint64_t job_id);

}  // namespace muster::controller
