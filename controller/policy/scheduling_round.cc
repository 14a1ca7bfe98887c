#include "controller/policy/scheduling_round.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/units.h"
#include "controller/policy/health/capacity.h"
#include "controller/policy/health/quarantine_rules.h"
#include "controller/policy/health/root_rules.h"
#include "controller/policy/limits/run_time.h"

namespace muster::controller {
namespace {

uint32_t SlotsOf(const std::vector<Grant>& grants) {
  uint32_t slots = 0;
  for (const Grant& grant : grants) slots += grant.slots.size();
  return slots;
}

// What of the kept slots lies on eligible workers (null: on all).
uint32_t SlotsWithin(const Kept& kept, const IdSet* eligible) {
  uint32_t slots = 0;
  for (const Grant& grant : kept.grants) {
    if (eligible == nullptr || eligible->Has(grant.worker_id)) slots += grant.slots.size();
  }
  return slots;
}

// A look that stopped early is followed by the next one this soon.
constexpr absl::Duration kNextPart = absl::Seconds(1);

constexpr int kMostNamed = 2;  // jobs for which slots are kept, in one message

std::string PlacementReason(const PlaceGang& gang, const JobNeeds& needs) {
  std::map<std::string, uint32_t> ranks;
  for (const RankPlacement& rank : gang.ranks) ++ranks[rank.worker];
  return absl::StrCat(gang.ranks.size(), gang.ranks.size() == 1 ? " rank" : " ranks", " (",
                      needs.min_ranks, " to ", needs.max_ranks, " wanted) on ",
                      absl::StrJoin(ranks, ", ", absl::PairFormatter(": ")));
}

}  // namespace

SchedulingRound::SchedulingRound(const World& world)
    : world_(world), partitions_(world.index.partitions()) {}

Decision SchedulingRound::Run() {
  const ScheduleSettings& settings = world_.context.settings;
  for (uint64_t id : world_.queue.unsaid()) {
    if (decision_.plan.waiting.size() >= settings.max_messages) break;
    const Job& job = *world_.snapshot.FindJob(id);
    decision_.plan.waiting.push_back(
        {.job_id = id, .message = Admit(world_.snapshot, job, world_.context).message});
  }
  QueueWalk walk(world_.queue, [this](const std::string& project) {
    return StandingOf(project, world_.snapshot, world_.running, world_.context);
  });
  uint32_t steps = 0;
  for (uint32_t looks = 0;;) {
    if (looks >= settings.max_looks) {
      decision_.looked_up_to = steps;
      LookAgainIn(kNextPart);
      break;
    }
    if (decision_.plan.place.size() >= settings.max_placements) {
      decision_.due_at = world_.context.now;
      break;
    }
    if (IsExhausted()) break;
    const QueueWalk::Step step = walk.Next();
    if (step.group == nullptr) break;
    // The front of the queue is looked at each time: slots are kept for the heads that stand there.
    // The rest of the look goes on where the last one stopped.
    if (++steps > settings.max_looks / 2 && steps <= world_.passed_over) {
      walk.SkipGroup();
      continue;
    }
    ++looks;
    Consider(walk, step);
  }
  GrowElastic();
  Undo();
  return std::move(decision_);
}

// Nothing is free, each partition has its head, and enough was said.
bool SchedulingRound::IsExhausted() const {
  if (said_ < world_.context.settings.max_messages) return false;
  for (size_t at = 0; at < partitions_.size(); ++at) {
    const WorkerIndex::Partition& partition = world_.index.partition(at);
    const bool done = partition.free_slots == 0 && partitions_[at].kept.empty();
    if (!done || (partition.usable_slots > 0 && partitions_[at].reserved_for == 0)) return false;
  }
  return true;
}

QuotaLine& SchedulingRound::QuotasOf(const std::string& project) {
  return quotas_.try_emplace(project, world_.snapshot, project).first->second;
}

std::vector<int> SchedulingRound::PartitionsOf(const Job& job) const {
  const JobNeeds& needs = job.settings->needs;
  const absl::Time now = world_.snapshot.LedgerTime(world_.context.now);
  std::vector<int> partitions;
  for (const JobNeeds::Pool& pool : needs.pools) {
    if (!IsOpenTo(job, pool, now)) continue;
    const int partition = world_.index.FindPartition(pool.name, needs.slot_kind);
    if (partition >= 0) partitions.push_back(partition);
  }
  return partitions;
}

// Whether its array or a quota holds it back; then that was said.
bool SchedulingRound::IsOver(QueueWalk& walk, const Candidate& candidate) {
  const Job& job = candidate.job;
  const JobGroup& group = candidate.group;
  if (group.recovering) return false;  // counts already
  const uint32_t of_array =
      world_.queue.LiveOfArray(group.array_id) + placed_of_array_[group.array_id];
  if (group.array_id != 0 && of_array >= group.at_a_time) {
    const std::string message =
        absl::StrCat("waits for others of array ", group.array_id, ": at most ", group.at_a_time,
                     " of it may run at a time");
    SetWaitReason(job, message);
    SetWaitReasonOfRest(candidate, message);
    walk.SkipGroup();
    return true;
  }
  QuotaLine& quotas = QuotasOf(group.project);
  const uint32_t slots = group.demand->min_slots();
  const QuotaLine::Decision decision = quotas.Pass(job.id, group.owner, slots);
  if (!decision.held_back) return false;
  std::string message = decision.over.value_or(absl::StrCat(
      "waits behind an earlier job of project ", group.project, " that is over quota"));
  if (decision.even_alone) message += ": it waits until the quota is raised";
  const bool could_displace =
      decision.over.has_value() && !decision.even_alone && decision.is_first && !candidate.soon;
  const bool displaces =
      could_displace && DisplaceOwn(candidate, quotas.CountOver(group.owner, slots));
  SetWaitReason(job, displaces ? absl::StrCat(message, WhoMakesWayFor(job.id)) : message);
  SetWaitReasonOfRest(candidate, message);
  walk.SkipGroup();
  const bool all_was_said = said_ >= world_.context.settings.max_messages;
  const bool all_wait = quotas.full_by() != 0 && !world_.queue.AnyRecovering(group.project);
  if (all_was_said && all_wait && !decision.even_alone) walk.SkipProject();
  return true;
}

void SchedulingRound::CapByQuota(Candidate& candidate) {
  const JobGroup& group = candidate.group;
  const JobNeeds& needs = group.demand->needs();
  candidate.max_ranks = needs.max_ranks;
  const Project* project = world_.snapshot.FindProject(group.project);
  if (project == nullptr || needs.min_ranks == needs.max_ranks) return;
  const ProjectUse& use = QuotasOf(group.project).use();
  const auto cap = [&](const Quota& quota, const Use& taken) {
    if (!quota.slots.has_value()) return;
    const uint32_t room = *quota.slots - std::min(*quota.slots, taken.slots);
    candidate.max_ranks = std::min(candidate.max_ranks, room / needs.slots_per_rank);
  };
  cap(project->quota, use.all);
  cap(project->QuotaOf(group.owner), use.Of(group.owner));
  candidate.max_ranks = std::max(candidate.max_ranks, needs.min_ranks);
}

void SchedulingRound::Consider(QueueWalk& walk, const QueueWalk::Step& step) {
  const Job& job = *world_.snapshot.FindJob(step.job_id);
  const bool waits = job.state == JobState::kPending && job.not_before_at > world_.context.now;
  const absl::Duration keep = world_.context.settings.keep_for_back_off;
  if (waits && job.not_before_at > world_.context.now + keep) return;  // its place is later
  const absl::Duration looks =
      LooksAwaitedUntil(world_.snapshot, job.settings->needs, world_.context.now);
  if (job.state == JobState::kPending && looks > world_.context.now) {
    decision_.due_at = std::min(decision_.due_at, looks);
    SetWaitReason(job, "waits until all workers have looked at its checkpoint root");
    return;
  }
  const bool soon = waits || job.state == JobState::kRecovering;
  Candidate candidate{
      .job = job, .group = *step.group, .soon = soon, .max_ranks = 0, .partitions = {}};
  if (IsOver(walk, candidate)) return;
  CapByQuota(candidate);
  candidate.partitions = PartitionsOf(job);
  candidate.failed_on = FailedOn(job);
  for (int partition : candidate.partitions) {
    const uint32_t most = soon ? candidate.group.demand->needs().min_ranks : candidate.max_ranks;
    if (Start(walk, candidate, partition, Fit(candidate, partition, most))) return;
  }
  bool others_could = false;  // of the group, in slots that are kept for later
  if (!soon) {
    const absl::Time end = world_.context.wall + ExpectedRunTimeLeft(world_.snapshot, job);
    for (int partition : candidate.partitions) {
      if (!GroupCouldUseKept(candidate, partition)) continue;
      others_could = true;
      if (Start(walk, candidate, partition, PlaceInKept(candidate, partition, end))) return;
    }
  }
  const Supply supply{.all = SupplyOf(candidate), .others = WhoElseGets(candidate)};
  ReserveForHead(candidate);
  const bool skips_group = !others_could && !soon;
  Wait(candidate, supply, skips_group);
  if (skips_group) walk.SkipGroup();
}

std::vector<Grant> SchedulingRound::Fit(const Candidate& candidate, int partition,
                                        uint32_t max_ranks) {
  Demand& demand = *candidate.group.demand;
  std::vector<Grant> grants = FitGang(world_.index, partition, demand, max_ranks);
  if (grants.empty() || candidate.failed_on.empty()) return grants;
  GiveBack(world_.index, demand.kind(), grants);
  std::vector<Grant> avoided;
  for (const std::string& name : candidate.failed_on) {
    const Worker* worker = world_.snapshot.FindWorker(name);
    if (worker == nullptr) continue;
    const WorkerIndex::Slots& slots =
        world_.index.node(worker->id).kinds[WorkerIndex::At(demand.kind())];
    if (slots.partition != partition || slots.free.empty()) continue;
    avoided.push_back({.worker_id = worker->id, .slots = {slots.free.rbegin(), slots.free.rend()}});
    world_.index.Take(avoided.back(), demand.kind());
  }
  std::vector<Grant> elsewhere = FitGang(world_.index, partition, demand, max_ranks);
  GiveBack(world_.index, demand.kind(), avoided);
  if (SlotsOf(elsewhere) >= SlotsOf(grants)) return elsewhere;
  GiveBack(world_.index, demand.kind(), elsewhere);
  for (const Grant& grant : grants) world_.index.Take(grant, demand.kind());
  return grants;
}

bool SchedulingRound::Start(QueueWalk& walk, const Candidate& candidate, int partition,
                            std::vector<Grant> grants) {
  if (grants.empty()) return false;
  const Job& job = candidate.job;
  if (candidate.soon) {
    const absl::Duration wait =
        std::max(job.not_before_at - world_.context.now, absl::ZeroDuration());
    const bool recovers = job.state == JobState::kRecovering;
    partitions_[partition].kept.push_back(
        {.for_job = job.id,
         .until = world_.context.wall + (recovers ? absl::ZeroDuration() : wait),
         .kind = candidate.group.demand->kind(),
         .grants = std::move(grants)});
    return true;
  }
  const uint32_t slots = SlotsOf(grants);
  walk.Placed(slots);
  QuotasOf(candidate.group.project).Take(candidate.group.owner, slots);
  if (candidate.group.array_id != 0) ++placed_of_array_[candidate.group.array_id];
  const JobNeeds& needs = candidate.group.demand->needs();
  for (const Grant& grant : grants) taken_.emplace_back(needs.slot_kind, grant);
  PlaceGang gang{.job_id = job.id,
                 .attempt = job.attempt + 1,
                 .ranks = RanksOf(world_.index, needs, std::move(grants)),
                 .reason = {}};
  gang.reason = PlacementReason(gang, needs);
  const WorkerIndex::Partition& there = world_.index.partition(partition);
  if (there.pool != needs.pools.front().name)
    absl::StrAppend(&gang.reason, " of pool ", there.pool);
  if (partitions_[partition].reserved_for != 0) {
    absl::StrAppend(&gang.reason, ", before job ", partitions_[partition].reserved_for,
                    ", which it does not hold up");
  }
  decision_.plan.place.push_back(std::move(gang));
  return true;
}

Capacity SchedulingRound::SupplyOf(const Candidate& candidate) const {
  Capacity supply;
  if (candidate.soon || said_ >= world_.context.settings.max_messages) return supply;
  Demand& demand = *candidate.group.demand;
  const IdSet* eligible = demand.Eligible(world_.index);
  for (int partition : candidate.partitions) {
    const WorkerIndex::Partition& there = world_.index.partition(partition);
    if (eligible == nullptr) {
      supply.free_slots += there.free_slots;
      supply.usable_slots += there.usable_slots;
      supply.ready_workers += there.ready_workers;
      continue;
    }
    there.workers.FindIf(eligible, [&](uint64_t id) {
      const WorkerIndex::Node& node = world_.index.node(id);
      const WorkerIndex::Slots& slots = node.kinds[WorkerIndex::At(demand.kind())];
      supply.free_slots += node.takes_work ? slots.free.size() : 0;
      supply.usable_slots += node.usable ? slots.total : 0;
      supply.ready_workers += node.takes_work;
      return false;
    });
  }
  // As people see them: what is kept is free.
  for (int partition : candidate.partitions) {
    for (const Kept& kept : partitions_[partition].kept)
      supply.free_slots += SlotsWithin(kept, eligible);
  }
  return supply;
}

std::string SchedulingRound::WhoElseGets(const Candidate& candidate) const {
  if (candidate.soon || said_ >= world_.context.settings.max_messages) return "";
  const IdSet* eligible = candidate.group.demand->Eligible(world_.index);
  std::string text;
  int named = 0;
  for (int partition : candidate.partitions) {
    for (const Kept& kept : partitions_[partition].kept) {
      const uint32_t slots = SlotsWithin(kept, eligible);
      if (slots == 0) continue;
      if (++named > kMostNamed) return absl::StrCat(text, " and more for others");
      absl::StrAppend(&text, named == 1 ? ", " : " and ", slots,
                      named == 1 ? " of them kept for job " : " for job ", kept.for_job);
      if (kept.until > world_.context.wall) {
        absl::StrAppend(&text, " until ",
                        absl::FormatTime("%Y-%m-%d %H:%M", kept.until, absl::UTCTimeZone()),
                        " UTC");
      }
    }
  }
  return text;
}

void SchedulingRound::Wait(const Candidate& candidate, const Supply& supply, bool skips_group) {
  if (candidate.soon || said_ >= world_.context.settings.max_messages) return;
  const JobNeeds& needs = candidate.group.demand->needs();
  uint64_t behind = 0;
  for (int partition : candidate.partitions) {
    if (behind == 0) behind = partitions_[partition].reserved_for;
  }
  const std::string wish = DescribeNeeds(needs);
  std::string message =
      absl::StrCat("needs ", wish, ": ", DescribeAvailable(supply.all), supply.others);
  const std::string to_the_rest =
      behind == 0 ? message : absl::StrCat("waits behind job ", behind, "; needs ", wish);
  for (const ReservedJob& head : decision_.reserved) {
    if (head.job_id != candidate.job.id || head.start == absl::InfiniteFuture()) continue;
    absl::StrAppend(&message, "; enough should be free at ",
                    absl::FormatTime("%Y-%m-%d %H:%M", head.start, absl::UTCTimeZone()), " UTC");
  }
  if (needs.commands && supply.all.usable_slots == 0) {
    absl::StrAppend(&message, needs.image == JobNeeds::Image::kNone
                                  ? "; only workers with --allow-commands run users' own code"
                                  : "; only workers with --allow-commands and a container "
                                    "runtime run commands in an image");
  }
  if (const std::string unseen = WhyRootUnseen(world_.snapshot, needs); !unseen.empty()) {
    absl::StrAppend(&message, "; ", unseen);
  }
  absl::StrAppend(&message, WhoMakesWayFor(candidate.job.id));
  const bool follows = behind != 0 && behind != candidate.job.id;
  SetWaitReason(candidate.job, follows ? to_the_rest : message);
  if (skips_group) SetWaitReasonOfRest(candidate, to_the_rest);
}

void SchedulingRound::SetWaitReasonOfRest(const Candidate& candidate, const std::string& message) {
  const std::set<uint64_t>& jobs = candidate.group.jobs;
  for (auto id = jobs.upper_bound(candidate.job.id); id != jobs.end(); ++id) {
    if (said_ >= world_.context.settings.max_messages) return;
    const Job& job = *world_.snapshot.FindJob(*id);
    if (job.not_before_at <= world_.context.now) SetWaitReason(job, message);
  }
}

void SchedulingRound::SetWaitReason(const Job& job, std::string message) {
  if (job.state != JobState::kPending || said_ >= world_.context.settings.max_messages) return;
  ++said_;
  if (job.message != message) {
    decision_.plan.waiting.push_back({.job_id = job.id, .message = std::move(message)});
  }
}

void SchedulingRound::Undo() {
  for (PartitionState& partition : partitions_) {
    for (const Kept& kept : partition.kept) GiveBack(world_.index, kept.kind, kept.grants);
  }
  for (auto it = taken_.rbegin(); it != taken_.rend(); ++it) {
    world_.index.Give(it->second, it->first);
  }
}

}  // namespace muster::controller
