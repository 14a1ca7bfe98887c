#include "controller/policy/autoscale/scale_demand.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/model/draft.h"
#include "controller/policy/explain/what_if.h"
#include "controller/policy/health/eligibility.h"
#include "controller/policy/scheduler.h"

namespace muster::controller {
namespace {

// No worker's name has it.
constexpr char kToCome = '+';

bool NamesPool(const JobNeeds& needs, const std::string& pool) {
  return std::any_of(needs.pools.begin(), needs.pools.end(),
                     [&pool](const JobNeeds::Pool& named) { return named.name == pool; });
}

bool Waits(const Job& job) {
  return job.state == JobState::kPending || job.state == JobState::kRecovering;
}

class DemandFinder {
 public:
  DemandFinder(const Snapshot& snapshot, const std::vector<PoolRoom>& rooms,
               const ScheduleContext& context)
      : world_(std::make_shared<const Snapshot>(snapshot)), rooms_(rooms), context_(context) {
    context_.settings.max_messages = 0;
    context_.settings.awaits_data_looks = false;
  }

  std::map<std::string, PoolDemand> Find() {
    if (!AnybodyWaits()) return {};
    // What the scheduler is about to place needs nobody to come.
    StartWhatFits();
    if (TakeBackLeaving()) StartWhatFits();
    if (AddThoseToCome()) StartWhatFits();
    for (auto& [pool, demand] : found_) {
      std::sort(demand.jobs.begin(), demand.jobs.end());
      demand.shortage = static_cast<uint32_t>(used_[pool].size());
    }
    return std::move(found_);
  }

 private:
  bool AnybodyWaits() const {
    return std::any_of(world_->active_jobs->begin(), world_->active_jobs->end(), [&](uint64_t id) {
      const Job& job = *world_->FindJob(id);
      return Waits(job) && std::any_of(rooms_.begin(), rooms_.end(), [&](const PoolRoom& room) {
               return NamesPool(job.settings->needs, room.scaling->pool);
             });
    });
  }

  void StartWhatFits() {
    const Decision decision = Schedule(*world_, context_);
    if (decision.plan.place.empty()) return;
    Draft draft(*world_);
    for (const PlaceGang& gang : decision.plan.place) {
      Note(gang);
      StartGang(draft, gang, context_);
    }
    world_ = draft.Finish();
  }

  void Note(const PlaceGang& gang) {
    std::set<std::string> lacks;  // pools that this gang lacks workers of
    for (const RankPlacement& rank : gang.ranks) {
      const size_t mark = rank.worker.find(kToCome);
      if (mark != std::string::npos) {
        const std::string pool = rank.worker.substr(0, mark);
        used_[pool].insert(rank.worker);
        lacks.insert(pool);
      } else if (taken_back_.count(rank.worker) != 0) {
        found_[world_->FindWorker(rank.worker)->facts.pool].wanted_back.insert(rank.worker);
      }
    }
    for (const std::string& pool : lacks) found_[pool].jobs.push_back(gang.job_id);
  }

  bool TakeBackLeaving() {
    Draft draft(*world_);
    std::vector<uint64_t> leaving;
    world_->workers.ForEach([&](const Worker& worker) {
      const bool scaled = std::any_of(rooms_.begin(), rooms_.end(), [&](const PoolRoom& room) {
        return room.scaling->pool == worker.facts.pool;
      });
      if (scaled && LeavesByScaling(worker)) leaving.push_back(worker.id);
    });
    for (const uint64_t id : leaving) {
      Worker& worker = draft.EditWorker(id);
      worker.cordoned = false;
      taken_back_.insert(worker.name);
    }
    if (leaving.empty()) return false;
    world_ = draft.Finish();
    return true;
  }

  bool AddThoseToCome() {
    Draft draft(*world_);
    RootViews all_roots;
    for (const uint64_t id : *world_->active_jobs) {
      const Job& job = *world_->FindJob(id);
      if (!Waits(job)) continue;
      const JobNeeds& needs = job.settings->needs;
      if (!needs.root.empty()) all_roots[needs.root].seen = true;
      if (needs.max_ranks == needs.min_ranks) continue;
      auto fewest = std::make_shared<JobSettings>(*job.settings);
      fewest->needs.max_ranks = fewest->needs.min_ranks;
      draft.EditJob(id).settings = std::move(fewest);
    }
    bool any = false;
    for (const PoolRoom& room : rooms_) {
      const Worker model = ModelOf(room, all_roots);
      for (uint32_t i = 0; i < room.more; ++i) {
        Worker worker = model;
        worker.name = absl::StrCat(room.scaling->pool, std::string(1, kToCome), i);
        draft.AddWorker(std::move(worker));
        any = true;
      }
    }
    if (any) world_ = draft.Finish();
    return any;
  }

  // One that comes, but for its name.
  Worker ModelOf(const PoolRoom& room, const RootViews& all_roots) const {
    const Worker* newest = nullptr;
    world_->workers.ForEach([&](const Worker& worker) {
      if (worker.facts.pool == room.scaling->pool && worker.pulse.connected) newest = &worker;
    });
    Worker model;
    model.facts = room.seen != nullptr ? *room.seen : room.scaling->facts;
    model.pulse.connected = true;
    model.pulse.last_seen_at = context_.now;
    RootViews roots = all_roots;
    if (newest != nullptr) {
      model.pulse.checks_data = newest->pulse.checks_data;
      model.pulse.data = newest->pulse.data;
      if (newest->pulse.roots != nullptr) {
        for (const auto& [path, view] : *newest->pulse.roots) roots[path] = view;
      }
    }
    model.pulse.roots = std::make_shared<const RootViews>(std::move(roots));
    return model;
  }

  std::shared_ptr<const Snapshot> world_;
  const std::vector<PoolRoom>& rooms_;
  ScheduleContext context_;
  std::map<std::string, PoolDemand> found_;
  std::map<std::string, std::set<std::string>> used_;  // workers to come, by pool
  std::set<std::string> taken_back_;
};

}  // namespace

bool LeavesByScaling(const Worker& worker) {
  return worker.cordoned && absl::StartsWith(worker.cordon_reason, kScaleDownReason);
}

std::map<std::string, PoolDemand> FindDemand(const Snapshot& snapshot,
                                             const std::vector<PoolRoom>& rooms,
                                             ScheduleContext context) {
  return DemandFinder(snapshot, rooms, context).Find();
}

bool CouldHold(const PoolScaling& scaling, const JobNeeds& needs) {
  if (!NamesPool(needs, scaling.pool)) return false;
  Worker worker;
  worker.facts = scaling.facts;
  return uint64_t{scaling.max} * IdleRanks(worker, needs) >= std::max(needs.min_ranks, 1u);
}

}  // namespace muster::controller
