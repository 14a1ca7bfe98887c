// What is kept of jobs beside their rows: which ones others were submitted to begin from, the
// newest one of a name, how long those of a name ran, which of them have checkpoints. Pure.
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

// The job is here, or is not any more, among those of its name. ForgetName requires that it still
// is in snapshot.jobs.
void CountName(Snapshot& snapshot, const Job& job);
void ForgetName(Snapshot& snapshot, const Job& job);

// The job, which succeeded, teaches how long those of its name run; and when the last one that
// taught it is gone, so is what was learned.
void LearnRunTime(Snapshot& snapshot, const Job& job);
void ForgetRunTime(Snapshot& snapshot, const Job& job);
// The same for one that comes back: what later ones taught counts more.
void RecallRunTime(Snapshot& snapshot, const Job& job);

// The job has a checkpoint that can be restored (Snapshot::resumable_jobs). Twice is as once.
void AddResumable(Snapshot& snapshot, const Job& job);
void RemoveResumable(Snapshot& snapshot, const Job& job);

// Checkpoints that an agent was told to delete, and may have deleted.
std::set<uint64_t> BeingDeleted(const Snapshot& snapshot);

// Whether an attempt may begin from it: it is not one of `going` (BeingDeleted), and nobody removed
// it.
bool MayBeRestored(const Checkpoint& checkpoint, const std::set<uint64_t>& going);

// The newest job of the settings' project and name that has a checkpoint which can be restored and
// is not being deleted; 0: none has.
uint64_t NewestToResume(const Snapshot& snapshot, const JobSettings& settings);

}  // namespace muster::controller
