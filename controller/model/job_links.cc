#include "controller/model/job_links.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace muster::controller {

std::set<uint64_t> SourcesOf(const Snapshot& snapshot, const Job& job) {
  std::set<uint64_t> sources;
  for (uint64_t id : job.settings->resume_from) {
    const Checkpoint* checkpoint = snapshot.FindCheckpoint(id);
    if (checkpoint != nullptr) sources.insert(checkpoint->job_id);
  }
  return sources;
}

void CountSources(Snapshot& snapshot, const Job& job, int sign) {
  for (uint64_t source : SourcesOf(snapshot, job)) {
    const std::string key = absl::StrCat(source);
    const uint32_t* known = snapshot.begun_from.Find(key);
    const uint32_t count = (known == nullptr ? 0 : *known) + static_cast<uint32_t>(sign);
    if (count == 0) {
      snapshot.begun_from.Erase(key);
    } else {
      snapshot.begun_from.Put(key, count);
    }
  }
}

bool IsBegunFrom(const Snapshot& snapshot, uint64_t job_id) {
  return snapshot.begun_from.Find(absl::StrCat(job_id)) != nullptr;
}

}  // namespace muster::controller
