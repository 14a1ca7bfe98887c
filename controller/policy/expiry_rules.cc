#include "controller/policy/expiry_rules.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/string_view.h"
#include "controller/model/job_state.h"
#include "controller/model/ledger_rules.h"

namespace muster::controller {
namespace {

// A job of its own, or all tasks of an array.
struct Unit {
  std::vector<uint64_t> jobs;  // ascending
  absl::Time ended = absl::InfinitePast();  // the last of them
  bool stays = false;
};

uint64_t UnitOf(const Job& job) {
  return job.array.array_id != 0 ? job.array.array_id : job.id;
}

// Calls take(id) for each job that this one names, or whose checkpoints.
template <typename F>
void ForEachWanted(const Snapshot& snapshot, const Job& job, F&& take) {
  // A task is named by the first one of its array.
  for (const SchedulingSettings::Dependency& other : job.settings->scheduling.after) {
    take(other.job_id);
  }
  for (const uint64_t id : job.settings->resume_from) {
    const Checkpoint* checkpoint = snapshot.FindCheckpoint(id);
    if (checkpoint != nullptr) take(checkpoint->job_id);
  }
}

bool HoldsSlots(const Attempt& attempt) {
  return std::any_of(attempt.ranks.begin(), attempt.ranks.end(),
                     [](const Rank& rank) { return rank.holds_slots; });
}

std::map<uint64_t, Unit> EndedUnits(const Snapshot& snapshot) {
  std::map<uint64_t, Unit> units;
  std::set<uint64_t> wanted;  // by another unit
  snapshot.jobs.ForEach([&](const Job& job) {
    const uint64_t own = UnitOf(job);
    Unit& unit = units[own];
    unit.jobs.push_back(job.id);
    unit.ended = std::max(unit.ended, FinishedAt(job));
    unit.stays |= !IsTerminal(job.state) || !HasLeftNothing(snapshot, job);
    ForEachWanted(snapshot, job, [&](uint64_t id) {
      const Job* other = snapshot.FindJob(id);
      if (other != nullptr && UnitOf(*other) != own) wanted.insert(UnitOf(*other));
    });
  });
  std::erase_if(units, [&](const auto& entry) {
    return entry.second.stays || wanted.count(entry.first) != 0;
  });
  return units;
}

// The newest job of each name that does not go.
std::map<absl::string_view, uint64_t> NewestThatStay(const Snapshot& snapshot,
                                                     const std::vector<Finding>& found) {
  std::map<absl::string_view, uint64_t> newest;
  std::set<uint64_t> going;
  for (const Finding& finding : found) {
    for (const auto& job : std::get<JobsExpired>(finding).jobs) {
      going.insert(job.id);
      newest.emplace(snapshot.FindJob(job.id)->settings->name, 0);
    }
  }
  snapshot.jobs.ForEach([&](const Job& job) {
    const auto name = newest.find(job.settings->name);
    if (name != newest.end() && going.count(job.id) == 0) name->second = job.id;
  });
  return newest;
}

}  // namespace

bool HasLeftNothing(const Snapshot& snapshot, const Job& job) {
  const bool on_disk =
      std::any_of(job.checkpoints.begin(), job.checkpoints.end(), [&snapshot](uint64_t id) {
        const Checkpoint* checkpoint = snapshot.FindCheckpoint(id);
        return checkpoint->state != CheckpointState::kDeleted;
      });
  if (on_disk || (job.current != nullptr && HoldsSlots(*job.current))) return false;
  return std::none_of(job.past.begin(), job.past.end(),
                      [](const auto& attempt) { return HoldsSlots(*attempt); });
}

std::vector<Finding> FindExpiredJobs(const Snapshot& snapshot, const ExpirySettings& settings,
                                     absl::Time now, size_t most) {
  const uint64_t ended = snapshot.jobs.size() - snapshot.active_jobs->size();
  uint64_t too_many = ended > settings.most ? ended - settings.most : 0;
  if (ended == 0 || (too_many == 0 && settings.after == absl::InfiniteDuration())) return {};
  std::vector<Unit> units;
  for (auto& [id, unit] : EndedUnits(snapshot)) units.push_back(std::move(unit));
  std::sort(units.begin(), units.end(), [](const Unit& a, const Unit& b) {
    return std::make_pair(a.ended, a.jobs.front()) < std::make_pair(b.ended, b.jobs.front());
  });
  std::vector<Finding> found;
  size_t jobs = 0;
  for (const Unit& unit : units) {
    if (too_many == 0 && now - unit.ended < settings.after) break;
    if (!found.empty() && jobs + unit.jobs.size() > most) break;
    JobsExpired finding{.jobs = {}, .ended = unit.ended, .last_known = snapshot.jobs.last_id()};
    for (const uint64_t id : unit.jobs) finding.jobs.push_back({.id = id});
    jobs += unit.jobs.size();
    too_many -= std::min<uint64_t>(too_many, unit.jobs.size());
    found.push_back(std::move(finding));
  }
  if (found.empty()) return found;
  const auto newest = NewestThatStay(snapshot, found);
  for (Finding& finding : found) {
    for (JobsExpired::Going& job : std::get<JobsExpired>(finding).jobs) {
      job.heir = newest.at(snapshot.FindJob(job.id)->settings->name);
    }
  }
  return found;
}

bool MayStillExpire(const Snapshot& snapshot, const JobsExpired& finding) {
  std::set<uint64_t> going;
  for (const JobsExpired::Going& entry : finding.jobs) {
    const Job* job = snapshot.FindJob(entry.id);
    const bool stands = job != nullptr && IsTerminal(job->state) &&
                        FinishedAt(*job) <= finding.ended && HasLeftNothing(snapshot, *job);
    if (!stands) return false;
    going.insert(entry.id);
  }
  for (const auto& [seq, row] : *snapshot.outbox) {
    const Checkpoint* checkpoint = snapshot.FindCheckpoint(row.checkpoint_id);
    if (going.count(row.fence.job_id) != 0) return false;
    if (checkpoint != nullptr && going.count(checkpoint->job_id) != 0) return false;
  }
  for (uint64_t id = finding.last_known + 1; id <= snapshot.jobs.last_id(); ++id) {
    const Job* job = snapshot.FindJob(id);
    bool wants = false;
    if (job != nullptr) {
      ForEachWanted(snapshot, *job, [&](uint64_t other) { wants |= going.count(other) != 0; });
    }
    if (wants) return false;
  }
  return true;
}

}  // namespace muster::controller
