#include "controller/api/calls/referred_jobs.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster::controller {
namespace {

absl::Status CheckReadsById(CallGate& gate, const Caller& caller, KnownJobs& jobs, uint64_t id) {
  v1::JobRef ref;
  ref.set_id(id);
  MUSTER_ASSIGN_OR_RETURN(const Job* job, jobs.Find(ref));
  return gate.CheckReads(caller, *job, jobs.NoSuchJob(ref));
}

}  // namespace

absl::Status LoadReadable(CallGate& gate, const Caller& caller, KnownJobs& jobs, SubmitJob& event) {
  if (gate.ReadsOf(caller) == nullptr) return jobs.LoadReferred(event);
  for (const SchedulingSettings::Dependency& other : event.settings->scheduling.after) {
    MUSTER_RETURN_IF_ERROR(CheckReadsById(gate, caller, jobs, other.job_id));
  }
  if (event.resume.has_value() && !event.resume->automatic) {
    ResumeRequest& resume = *event.resume;
    if (!resume.job_name.empty()) {
      v1::JobRef ref;
      ref.set_name(resume.job_name);
      MUSTER_ASSIGN_OR_RETURN(const Job* job, jobs.Find(ref));
      // Not whichever job of that name is the newest when the engine looks.
      resume.job_name.clear();
      resume.job_id = job->id;
    }
    MUSTER_RETURN_IF_ERROR(CheckReadsById(gate, caller, jobs, resume.job_id));
  }
  return jobs.LoadReferred(event);
}

}  // namespace muster::controller
