#include "controller/policy/queue/job_queue.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace muster::controller {

uint32_t JobQueue::LiveOfArray(uint64_t array_id) const {
  const auto it = live_of_array_.find(array_id);
  return it == live_of_array_.end() ? 0 : it->second;
}

JobQueue::ArrayOutlook JobQueue::OutlookOf(const Snapshot& snapshot, uint64_t array_id) {
  const ArrayTally* tally = snapshot.arrays.Find(ArrayKey(array_id));
  if (tally == nullptr) return {};
  return {.all_ended = tally->open == 0,
          .first_succeeded = tally->first_succeeded,
          .first_failed = tally->first_failed};
}

void JobQueue::Leave(uint64_t id, JobGroup& group) {
  Level& level = levels_.at(group.priority);
  Bucket& bucket = level.at(group.project);
  const bool was_first = *group.jobs.begin() == id;
  if (was_first) bucket.erase(id);
  group.jobs.erase(id);
  --size_;
  if (group.recovering && --recovering_.at(group.project) == 0) recovering_.erase(group.project);
  if (was_first && !group.jobs.empty()) bucket.emplace(*group.jobs.begin(), &group);
  if (!group.jobs.empty()) return;
  if (bucket.empty()) level.erase(group.project);
  if (level.empty()) levels_.erase(group.priority);
  demands_.erase(Demand::KeyOf(group.demand->needs()));  // made anew for the next one
  groups_.erase(std::string(group.key));
}

void JobQueue::Forget(uint64_t id, Where& where) {
  if (where.group != nullptr) Leave(id, *where.group);
  if (where.again_at != absl::InfiniteDuration()) due_.erase({where.again_at, id});
  if (where.again != absl::InfiniteFuture()) due_by_wall_.erase({where.again, id});
  for (absl::Duration at : where.fall_backs) fall_backs_.erase({at, id});
  if (where.waits_for_array) {
    const auto it = array_waiters_.find(where.waits_for);
    it->second.jobs.erase(id);
    if (it->second.jobs.empty()) array_waiters_.erase(it);
  } else if (where.waits_for != 0) {
    const auto it = waiters_.find(where.waits_for);
    it->second.erase(id);
    if (it->second.empty()) waiters_.erase(it);
  }
  if (where.array_id != 0 && --live_of_array_[where.array_id] == 0) {
    live_of_array_.erase(where.array_id);
  }
  unexplained_.erase(id);
  where = Where();
}

std::shared_ptr<Demand> JobQueue::DemandOf(const JobNeeds& needs) {
  std::weak_ptr<Demand>& known = demands_[Demand::KeyOf(needs)];
  std::shared_ptr<Demand> demand = known.lock();
  if (demand == nullptr) {
    demand = std::make_shared<Demand>(needs);
    known = demand;
  }
  return demand;
}

JobGroup& JobQueue::GroupOf(const Job& job, absl::Time now) {
  const JobSettings& settings = *job.settings;
  std::string open;  // which pools count by now
  for (const JobNeeds::Pool& pool : settings.needs.pools)
    open += IsOpenTo(job, pool, now) ? '+' : '-';
  const uint64_t array = job.array.at_a_time > 0 ? job.array.array_id : 0;
  const bool recovering = job.state == JobState::kRecovering;
  std::string key =
      absl::StrCat(settings.priority, "\n", settings.project, "\n", job.owner, "\n", array, "\n",
                   open, "\n", recovering, "\n", Demand::KeyOf(settings.needs));
  std::unique_ptr<JobGroup>& group = groups_[key];
  if (group == nullptr) {
    group = std::make_unique<JobGroup>();
    group->key = std::move(key);
    group->priority = settings.priority;
    group->project = settings.project;
    group->owner = job.owner;
    group->array_id = array;
    group->at_a_time = job.array.at_a_time;
    group->recovering = recovering;
    group->demand = DemandOf(settings.needs);
  }
  return *group;
}

void JobQueue::Enqueue(const Job& job, Where& where, absl::Time now) {
  JobGroup& group = GroupOf(job, now);
  Bucket& bucket = levels_[group.priority][group.project];
  const uint64_t first = group.jobs.empty() ? 0 : *group.jobs.begin();
  group.jobs.insert(job.id);
  ++size_;
  if (group.recovering) ++recovering_[group.project];
  where.group = &group;
  if (first == 0 || job.id < first) {
    if (first != 0) bucket.erase(first);
    bucket.emplace(job.id, &group);
  }
}

void JobQueue::Put(const Snapshot& snapshot, uint64_t id, const Job* job,
                   const ScheduleContext& context) {
  Evaluate(snapshot, id, job, context);
  // Jobs that wait for it may have to wait no longer. Nothing changes for jobs that wait for those:
  // they depend on the rows, which did not change.
  std::set<uint64_t> others;
  if (const auto waiting = waiters_.find(id); waiting != waiters_.end()) others = waiting->second;
  if (job != nullptr && job->array.array_id != 0) {
    const auto array = array_waiters_.find(job->array.array_id);
    if (array != array_waiters_.end()) {
      const ArrayOutlook now = OutlookOf(snapshot, job->array.array_id);
      if (now != array->second.outlook) {
        array->second.outlook = now;
        others.insert(array->second.jobs.begin(), array->second.jobs.end());
      }
    }
  }
  for (uint64_t other : others) {
    if (other != id) Evaluate(snapshot, other, snapshot.FindJob(other), context);
  }
}

void JobQueue::Evaluate(const Snapshot& snapshot, uint64_t id, const Job* job,
                        const ScheduleContext& context) {
  if (const auto known = where_.find(id); known != where_.end()) {
    Forget(id, known->second);
    where_.erase(known);
  }
  if (job == nullptr) return;
  Where where;
  if (job->has_live_attempt() && job->array.at_a_time > 0) {
    where.array_id = job->array.array_id;
    ++live_of_array_[where.array_id];
  }
  const Admission admission = Admit(snapshot, *job, context);
  where.again_at = admission.again_at;
  where.again = admission.again;
  if (where.again_at != absl::InfiniteDuration()) due_.insert({where.again_at, id});
  if (where.again != absl::InfiniteFuture()) due_by_wall_.insert({where.again, id});
  where.waits_for = admission.waits_for;
  where.waits_for_array = admission.waits_for_array;
  // The one that it made way for may come to wait again, and then goes first again.
  const bool waits = job->state == JobState::kPending || job->state == JobState::kRecovering;
  if (where.waits_for == 0 && waits && job->current != nullptr) {
    where.waits_for = job->current->preempted_by;
  }
  if (where.waits_for_array) {
    const auto [array, fresh] = array_waiters_.try_emplace(where.waits_for);
    if (fresh) array->second.outlook = OutlookOf(snapshot, where.waits_for);
    array->second.jobs.insert(id);
  } else if (where.waits_for != 0) {
    waiters_[where.waits_for].insert(id);
  }
  if (admission.decision == Admission::Decision::kBlocked) {
    if (job->message != admission.message) unexplained_.insert(id);
  } else if (admission.decision != Admission::Decision::kNotWaiting) {
    const absl::Time now = snapshot.LedgerTime(context.now);
    Enqueue(*job, where, now);
    for (const JobNeeds::Pool& pool : job->settings->needs.pools) {
      // A job that recovers begins its next wait later.
      if (job->state != JobState::kPending || IsOpenTo(*job, pool, now)) continue;
      const absl::Duration at = context.now + (pool.after - Waited(*job, now));
      if (fall_backs_.insert({at, id}).second) where.fall_backs.push_back(at);
    }
  }
  const bool nothing = where.group == nullptr && where.array_id == 0 && where.waits_for == 0 &&
                       admission.decision == Admission::Decision::kNotWaiting;
  if (!nothing) where_.emplace(id, std::move(where));
}

void JobQueue::Advance(const Snapshot& snapshot, const ScheduleContext& context) {
  std::set<uint64_t> changed;
  if (context.wall < wall_) {
    for (const auto& [id, where] : where_) changed.insert(id);
  }
  wall_ = context.wall;
  for (const auto& [at, id] : due_) {
    if (at > context.now) break;
    changed.insert(id);
  }
  for (const auto& [at, id] : due_by_wall_) {
    if (at > context.wall) break;
    changed.insert(id);
  }
  for (const auto& [at, id] : fall_backs_) {
    if (at > context.now) break;
    changed.insert(id);
  }
  for (uint64_t id : changed) Evaluate(snapshot, id, snapshot.FindJob(id), context);
}

absl::Duration JobQueue::NextDue(const ScheduleContext& context) const {
  absl::Duration next = due_.empty() ? absl::InfiniteDuration() : due_.begin()->first;
  if (!due_by_wall_.empty()) {
    next = std::min(next, context.now + (due_by_wall_.begin()->first - context.wall));
  }
  if (!fall_backs_.empty()) next = std::min(next, fall_backs_.begin()->first);
  return next;
}

}  // namespace muster::controller
