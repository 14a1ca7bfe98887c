#include "controller/policy/queue/queue_order.h"

#include <algorithm>

#include "controller/policy/limits/fair_share.h"

namespace muster::controller {

Standing StandingOf(const std::string& project, const Snapshot& snapshot,
                    const RunningJobs& running, const ScheduleContext& context) {
  const absl::Duration half_life = context.settings.use_half_life;
  const absl::Time now = snapshot.LedgerTime(context.now);
  Standing standing;
  standing.worth = running.DecayedAt(project, now, half_life);
  standing.slots_held = snapshot.UseOf(project).all.slots;
  if (const Project* row = snapshot.FindProject(project)) {
    standing.worth += DecayedAt(row->used, now, half_life);
    standing.weight = row->weight;
  }
  return standing;
}

double QueueWalk::KeyOf(const std::string& project) {
  const auto [it, fresh] = standings_.try_emplace(project);
  if (fresh) it->second = standing_of_(project);
  const Standing& standing = it->second;
  return ShareKey(standing.worth, standing.slots_held + slots_[project], standing.weight);
}

void QueueWalk::EnterLevel() {
  cursors_.clear();
  heap_.clear();
  cursors_.resize(level_->second.size());
  size_t at = 0;
  for (const auto& [project, bucket] : level_->second) {
    Cursor& cursor = cursors_[at++];
    cursor.project = &project;
    cursor.key = KeyOf(project);
    cursor.next = bucket.begin();
    cursor.end = bucket.end();
    heap_.push_back(&cursor);
  }
  std::make_heap(heap_.begin(), heap_.end(), Later());
  entered_ = true;
}

void QueueWalk::Return() {
  Cursor* cursor = std::exchange(cursor_in_hand_, nullptr);
  if (cursor == nullptr) return;
  if (in_hand_.group != nullptr) {
    const auto after = in_hand_.group->jobs.upper_bound(in_hand_.job_id);
    if (after != in_hand_.group->jobs.end()) cursor->seen.emplace(*after, in_hand_.group);
  }
  if (cursor->empty() || done_projects_.count(*cursor->project) != 0) return;
  cursor->key = KeyOf(*cursor->project);
  heap_.push_back(cursor);
  std::push_heap(heap_.begin(), heap_.end(), Later());
}

QueueWalk::Step QueueWalk::Next() {
  Return();
  while (level_ != queue_.levels().end()) {
    if (!entered_) EnterLevel();
    if (heap_.empty()) {
      ++level_;
      entered_ = false;
      continue;
    }
    std::pop_heap(heap_.begin(), heap_.end(), Later());
    Cursor* cursor = heap_.back();
    heap_.pop_back();
    if (done_projects_.count(*cursor->project) != 0) continue;
    const bool take_seen =
        !cursor->seen.empty() &&
        (cursor->next == cursor->end || cursor->seen.top().first < cursor->next->first);
    if (take_seen) {
      in_hand_ = {.job_id = cursor->seen.top().first, .group = cursor->seen.top().second};
      cursor->seen.pop();
    } else {
      in_hand_ = {.job_id = cursor->next->first, .group = cursor->next->second};
      ++cursor->next;
    }
    cursor_in_hand_ = cursor;
    project_in_hand_ = *cursor->project;
    return in_hand_;
  }
  return {};
}

}  // namespace muster::controller
