#include "tests/sim/all_jobs.h"

#include <string>
#include <utility>

#include "tests/sim/invariants.h"

namespace muster::sim {

std::shared_ptr<const mc::Snapshot> AllJobs::OnStart(std::shared_ptr<const mc::Snapshot> loaded,
                                                     mc::History& history) {
  archived_.clear();
  last_ = std::move(loaded);
  for (uint64_t id = 1; id <= last_->jobs.last_id(); ++id) {
    if (last_->IsForgottenOrArchived(id)) Read(id, history);
  }
  return WithArchived();
}

std::shared_ptr<const mc::Snapshot> AllJobs::OnPublished(
    std::shared_ptr<const mc::Snapshot> published, mc::History& history) {
  const std::shared_ptr<const mc::Snapshot> before = std::exchange(last_, std::move(published));
  last_->jobs.ForEachChange(before->jobs, [&](uint64_t id, const mc::Job*, const mc::Job* job) {
    if (job != nullptr) {
      if (archived_.erase(id) != 0) trace_.Note("job ", id, " is restored");
      return;
    }
    trace_.Note("job ", id, " is archived");
    ++archived_so_far_;
    Read(id, history);
    const auto archived = archived_.find(id);
    if (archived != archived_.end()) CheckUnchanged(*before, archived->second);
  });
  return WithArchived();
}

void AllJobs::Read(uint64_t id, mc::History& history) {
  absl::StatusOr<mc::ArchivedJob> archived = history.Find(id);
  if (archived.ok()) {
    archived_[id] = *std::move(archived);
  } else {
    trace_.Fail("job ", id,
                " is neither in memory nor in the history: ", archived.status().ToString());
  }
}

void AllJobs::CheckUnchanged(const mc::Snapshot& before, const mc::ArchivedJob& archived) {
  const auto check = [this](const std::string& was, const std::string& is) {
    if (is != was) trace_.Fail("changed by being archived: was ", was, ", is ", is);
  };
  const uint64_t id = archived.job->id;
  const std::map<std::string, std::string> rows = DurableRows(*archived.job);
  for (const auto& [name, row] : DurableRows(*before.FindJob(id))) {
    const auto it = rows.find(name);
    check(row, it == rows.end() ? "gone" : it->second);
  }
  for (const auto& checkpoint : archived.checkpoints) {
    const mc::Checkpoint* was = before.FindCheckpoint(checkpoint->id);
    check(was == nullptr ? "not there" : DurableRow(*was), DurableRow(*checkpoint));
  }
  if (archived.checkpoints.size() != archived.job->checkpoints.size()) {
    trace_.Fail("job ", id, ": of ", archived.job->checkpoints.size(), " checkpoints ",
                archived.checkpoints.size(), " are archived");
  }
}

std::shared_ptr<const mc::Snapshot> AllJobs::WithArchived() const {
  if (archived_.empty()) return last_;
  auto all = std::make_shared<mc::Snapshot>(*last_);
  for (const auto& [id, archived] : archived_) {
    all->jobs.Put(id, archived.job);
    for (const auto& checkpoint : archived.checkpoints) {
      all->checkpoints.Put(checkpoint->id, checkpoint);
    }
  }
  return all;
}

}  // namespace muster::sim
