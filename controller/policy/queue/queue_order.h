// Walks the queue in the order in which jobs are to be placed. Pure.
//
// The highest priority first; within it the project whose turn it is (policy/limits/fair_share.h),
// and of that project the job that was submitted first. What the walk is told was placed counts for
// the project's turn at once.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "controller/policy/placement/running_jobs.h"
#include "controller/policy/queue/job_queue.h"
#include "controller/policy/queue/schedule_context.h"

namespace muster::controller {

// A project's standing before the walk.
struct Standing {
  double worth = 0;  // of what it has used, live attempts included
  uint32_t slots_held = 0;
  double weight = 1;
};
// `running` was fed with the snapshot's jobs.
Standing StandingOf(const std::string& project, const Snapshot& snapshot,
                    const RunningJobs& running, const ScheduleContext& context);

class QueueWalk {
 public:
  struct Step {
    uint64_t job_id = 0;
    JobGroup* group = nullptr;  // null: the end
  };
  using Standings = std::function<Standing(const std::string& project)>;

  QueueWalk(const JobQueue& queue, Standings standing_of)
      : queue_(queue), standing_of_(std::move(standing_of)), level_(queue.levels().begin()) {}

  Step Next();

  // Apply to the last step. Without a Skip the group's next job follows in its turn.
  void SkipGroup() { in_hand_.group = nullptr; }
  bool skips_group() const { return in_hand_.group == nullptr; }
  void SkipProject() { done_projects_.insert(project_in_hand_); }
  void Placed(uint32_t slots) { slots_[project_in_hand_] += slots; }

 private:
  // Where the walk stands in one project's bucket.
  struct Cursor {
    const std::string* project = nullptr;
    double key = 0;
    JobQueue::Bucket::const_iterator next;  // groups whose first job was not seen
    JobQueue::Bucket::const_iterator end;
    // Groups that were seen, by their next job; the smallest on top.
    std::priority_queue<std::pair<uint64_t, JobGroup*>, std::vector<std::pair<uint64_t, JobGroup*>>,
                        std::greater<>>
        seen;
    bool empty() const { return next == end && seen.empty(); }
  };
  struct Later {
    bool operator()(const Cursor* a, const Cursor* b) const {
      return a->key != b->key ? a->key > b->key : *a->project > *b->project;
    }
  };

  void EnterLevel();
  void Return();  // the current cursor, to its place in the queue
  double KeyOf(const std::string& project);

  const JobQueue& queue_;
  const Standings standing_of_;
  JobQueue::Levels::const_iterator level_;
  bool entered_ = false;
  std::vector<Cursor> cursors_;
  std::vector<Cursor*> heap_;  // a heap: whose turn it is
  Cursor* cursor_in_hand_ = nullptr;
  Step in_hand_;
  std::string project_in_hand_;
  std::unordered_map<std::string, uint32_t> slots_;  // placed in this walk
  std::unordered_map<std::string, Standing> standings_;
  std::unordered_set<std::string> done_projects_;
};

}  // namespace muster::controller
