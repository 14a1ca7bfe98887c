#include "controller/rules/projects/hard_limits.h"

#include "absl/strings/str_cat.h"

namespace muster::controller {

absl::Status MayAddProject(const Draft& draft, const std::string& project) {
  const Snapshot& view = draft.view();
  if (view.FindProject(project) != nullptr || view.use->count(project) != 0) {
    return absl::OkStatus();
  }
  size_t known = view.projects->size();
  for (const auto& [name, use] : *view.use) known += view.projects->count(name) == 0;
  // Those of jobs that came in this very batch are in neither list yet.
  if (draft.new_projects().count(project) != 0) return absl::OkStatus();
  known += draft.new_projects().size();
  if (known < kMaxProjects) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("refused: project ", project, " is new, and ",
                                                   kMaxProjects, " are known: use one of those"));
}

absl::Status MayAddJobs(const Draft& draft, uint32_t jobs) {
  const size_t active = draft.view().active_jobs->size() + draft.new_jobs() + draft.requeued_jobs();
  if (active + jobs <= kMaxActiveJobs) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("refused: ", active,
                                                   " jobs have not ended, and ", kMaxActiveJobs,
                                                   " is the most: wait until some have"));
}

absl::Status MayChange(const Job& job) {
  if (job.events.size() < kMaxEventsOfJob) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("job ", job.id, ": ", job.events.size(),
                   " events are recorded of it already: cancel it and submit it anew"));
}

}  // namespace muster::controller
