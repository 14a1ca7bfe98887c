// Plans carried out by hand, for tests of the policies over many looks: what is placed runs at
// once, what is stopped has left by the next look.
//
// Checks each plan on its way: slots are free, priorities are not inverted.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/policy/scheduler.h"
#include "tests/controller/policy/world.h"

namespace muster::controller {

class Replay {
 public:
  static constexpr absl::Duration kLook = absl::Minutes(1);
  // The same moment by the wall clock and since boot; ledger time is the wall clock's.
  static inline const absl::Time kStart = absl::FromUnixSeconds(1'000'000);
  static constexpr absl::Duration kStartedAt = absl::Hours(1);

  World world{kStart - kStartedAt};

  uint64_t Submit(JobSettings settings) {
    if (settings.project.empty()) settings.project = "p";
    const uint64_t id = world.AddJob(std::move(settings)).id;
    world.draft().EditJob(id).submitted = wall_;
    return id;
  }

  // One look, a minute after the last one. How many gangs were placed or stopped.
  size_t Look() {
    wall_ += kLook;
    now_ += kLook;
    LetGo();
    const Plan plan =
        Schedule(world.view(), {.now = now_, .wall = wall_, .settings = settings}).plan;
    for (const StopGang& stop : plan.stop) Stop(stop);
    for (const PlaceGang& gang : plan.place) Place(gang);
    return plan.stop.size() + plan.place.size();
  }

  // The live attempt has committed a checkpoint, which was reread.
  void Save(uint64_t id) {
    const uint64_t row = world.draft()
                             .AddCheckpoint({.job_id = id,
                                             .attempt = job(id).attempt,
                                             .state = CheckpointState::kVerified,
                                             .path = "/c",
                                             .created = wall_})
                             .id;
    world.draft().EditJob(id).checkpoints.push_back(row);
  }

  void Finish(uint64_t id) {
    End(id);
    world.draft().EditJob(id).state = JobState::kSucceeded;
  }

  // The rank has died, and the others of its gang have not left yet.
  void LoseRank(uint64_t id, uint32_t rank) {
    Release(id, rank);
    Move(id, JobState::kRecovering, Reason::kRankFailed);
  }
  // They have, and it may start again after the wait.
  void BackOff(uint64_t id, absl::Duration wait) {
    End(id);
    Move(id, JobState::kPending, Reason::kAttemptCleared);
    world.draft().EditJob(id).not_before_at = now_ + wait;
  }

  // The worker is gone and with it whoever had ranks there, until it returns.
  void Lose(const std::string& worker) {
    const std::vector<uint64_t> active = *world.view().active_jobs;  // each view makes a new list
    for (const uint64_t id : active) {
      if (!job(id).has_live_attempt()) continue;
      const std::vector<Rank> ranks = job(id).current->ranks;
      for (const Rank& rank : ranks) {
        if (rank.worker != worker) continue;
        End(id);
        Move(id, JobState::kPending, Reason::kAttemptCleared);
        world.draft().EditJob(id).not_before_at = now_;
        break;
      }
    }
    SetPresence(worker, Presence::kLost);
  }
  void Return(const std::string& worker) { SetPresence(worker, Presence::kReady); }

  const Job& job(uint64_t id) { return *world.view().FindJob(id); }
  size_t ranks(uint64_t id) {
    return job(id).has_live_attempt() ? job(id).current->ranks.size() : 0;
  }
  uint32_t stops(uint64_t id) const {
    const auto it = stops_.find(id);
    return it == stops_.end() ? 0 : it->second;
  }
  absl::Time wall() const { return wall_; }

  ScheduleSettings settings;

 private:
  void Place(const PlaceGang& gang) {
    Attempt attempt;
    attempt.number = gang.attempt;
    attempt.started = wall_;
    const JobNeeds& needs = job(gang.job_id).settings->needs;
    ASSERT_EQ(job(gang.job_id).state, JobState::kPending);
    ASSERT_GE(gang.ranks.size(), needs.min_ranks);
    ASSERT_LE(gang.ranks.size(), needs.max_ranks);
    for (const RankPlacement& placement : gang.ranks) {
      Rank rank;
      rank.rank = attempt.ranks.size();
      rank.worker = placement.worker;
      rank.slots = placement.slots;
      ASSERT_EQ(rank.slots.size(), needs.slots_per_rank);
      Worker& worker = world.draft().EditWorker(world.view().FindWorker(rank.worker)->id);
      for (uint32_t slot : rank.slots) {
        ASSERT_EQ(worker.pulse.holders.count(slot), 0u) << "slot " << slot << " was given twice";
      }
      HoldSlots(worker.pulse, needs, gang.job_id, gang.attempt, rank);
      attempt.ranks.push_back(std::move(rank));
    }
    world.draft().AddAttempt(gang.job_id, std::move(attempt));
    Move(gang.job_id, JobState::kRunning, Reason::kPlaced);
  }

  void Stop(const StopGang& stop) {
    ASSERT_EQ(job(stop.job_id).state, JobState::kRunning);
    ++stops_[stop.job_id];
    if (stop.why != StopGang::Why::kGrow) {
      const Job& head = job(stop.for_job);
      ASSERT_EQ(head.state, JobState::kPending);
      EXPECT_TRUE(job(stop.job_id).settings->scheduling.preemptible);
      if (stop.why == StopGang::Why::kPreempt) {
        EXPECT_GT(head.settings->priority, job(stop.job_id).settings->priority) << "inverted";
      } else {
        EXPECT_GE(head.settings->priority, job(stop.job_id).settings->priority) << "inverted";
      }
    }
    Attempt& attempt = world.draft().EditAttempt(stop.job_id);
    attempt.save_requested = true;
    attempt.preempted_by = stop.for_job;
    attempt.reason =
        stop.why == StopGang::Why::kPreempt ? Reason::kPreemptedByJob : Reason::kResized;
    Move(stop.job_id, JobState::kRecovering, attempt.reason);
    leaving_.insert(stop.job_id);
  }

  void Move(uint64_t id, JobState to, Reason reason) {
    Job& job = world.draft().EditJob(id);
    world.draft().AddEvent({.job_id = id,
                            .time = wall_,
                            .from = job.state,
                            .to = to,
                            .reason = reason,
                            .attempt = job.attempt});
    world.draft().EditJob(id).state = to;
  }

  void SetPresence(const std::string& worker, Presence presence) {
    Worker& edited = world.draft().EditWorker(world.view().FindWorker(worker)->id);
    edited.lost = presence == Presence::kLost;
    edited.pulse.suspect = presence == Presence::kSuspect;
  }

  void LetGo() {
    for (uint64_t id : leaving_) {
      End(id);
      world.draft().EditAttempt(id).failure_class = FailureClass::kPreempted;
      Move(id, JobState::kPending, Reason::kAttemptCleared);
      world.draft().EditJob(id).not_before_at = now_;
    }
    leaving_.clear();
  }

  void Release(uint64_t id, uint32_t at) {
    const Rank rank = job(id).current->ranks[at];
    Worker& worker = world.draft().EditWorker(world.view().FindWorker(rank.worker)->id);
    for (uint32_t slot : rank.slots) worker.pulse.holders.erase(slot);
    world.draft().EditRank(id, at).holds_slots = false;
  }

  void End(uint64_t id) {
    const size_t ranks = job(id).current->ranks.size();
    for (uint32_t i = 0; i < ranks; ++i) Release(id, i);
    world.draft().EditAttempt(id).ended = wall_;
  }

  absl::Time wall_ = kStart;
  absl::Duration now_ = kStartedAt;
  std::set<uint64_t> leaving_;
  std::map<uint64_t, uint32_t> stops_;
};

}  // namespace muster::controller
