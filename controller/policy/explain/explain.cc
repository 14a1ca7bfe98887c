#include "controller/policy/explain/explain.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/units.h"
#include "controller/model/draft.h"
#include "controller/policy/explain/blockers.h"
#include "controller/policy/explain/forecast.h"
#include "controller/policy/explain/outlook.h"
#include "controller/policy/explain/queue_position.h"
#include "controller/policy/explain/what_if.h"
#include "controller/policy/health/data_sight.h"
#include "controller/policy/limits/quota.h"
#include "controller/policy/limits/run_time.h"
#include "controller/policy/limits/time_limits.h"
#include "controller/policy/placement/pool_shortfall.h"
#include "controller/policy/queue/admission.h"
#include "controller/policy/scheduler.h"

namespace muster::controller {
namespace {

const PlaceGang* FindPlaced(const Decision& decision, uint64_t id) {
  for (const PlaceGang& gang : decision.plan.place) {
    if (gang.job_id == id) return &gang;
  }
  return nullptr;
}

// One job, first in the world as it is, then in worlds with less in its way.
class Inquiry {
 public:
  Inquiry(const Snapshot& snapshot, uint64_t job_id, const ScheduleContext& context)
      : id_(job_id), context_(context), world_(std::make_shared<const Snapshot>(snapshot)) {
    constexpr uint32_t kAll = UINT32_MAX;
    context_.settings.max_placements = kAll;
    context_.settings.max_messages = kAll;
  }

  Explanation Run() {
    const std::shared_ptr<const Snapshot> real = world_;
    out_.reason = job().message;
    out_.run_time = ExpectedRunTimeLeft(*real, job());
    out_.run_time_source = SourceOfRunTimeLeft(*real, job());
    out_.waits = job().state == JobState::kPending || job().state == JobState::kRecovering ||
                 job().state == JobState::kSuspended;
    if (EndsForItsLimits()) return std::move(out_);
    if (!out_.waits) {
      Settled();
      CountCost();
      return std::move(out_);
    }
    decision_ = Schedule(*world_, context_);
    FindReason();
    if (const PlaceGang* gang = FindPlaced(decision_, id_)) {
      out_.start = context_.wall;
      out_.ranks = gang->ranks;
    } else {
      context_.settings.max_messages = 0;
      FindBlockers();
      FindStart(*real);
    }
    CountCost();
    out_.forecast = ForecastLine(out_, context_.wall);
    return std::move(out_);
  }

 private:
  const Job& job() const { return *world_->FindJob(id_); }
  const JobNeeds& needs() const { return job().settings->needs; }
  bool IsPlaced() const { return FindPlaced(decision_, id_) != nullptr; }

  void Block(Blocker blocker) { out_.blockers.push_back(std::move(blocker)); }

  // From here on in the world without it.
  template <typename Edit>
  void Lift(Edit edit) {
    Draft draft(*world_);
    edit(draft);
    world_ = draft.Finish();
    decision_ = Schedule(*world_, context_);
  }

  // It has passed a limit: the limits loop ends it next.
  bool EndsForItsLimits() {
    if (!out_.waits) return false;
    const std::optional<PassedLimit> limit =
        EvaluateLimits(*world_, job(), {context_.wall, context_.now});
    if (!limit.has_value() || limit->input == JobInput::kDependencyFailed) return false;
    out_.reason = limit->message;
    out_.why_unknown = limit->message;
    out_.forecast = ForecastLine(out_, context_.wall);
    return true;
  }

  // It has slots, or has ended.
  void Settled() {
    out_.why_unknown = absl::StrCat("it is ", JobStateName(job().state));
    if (!job().has_live_attempt()) return;
    out_.end = ExpectedEnd(*world_, job(), {.wall = context_.wall, .now = context_.now});
    for (const Rank& rank : job().current->ranks) {
      out_.ranks.push_back(
          {.worker = rank.worker, .slots = rank.slots, .local_rank = rank.local_rank});
    }
  }

  void CountCost() {
    for (const RankPlacement& rank : out_.ranks) out_.slots += rank.slots.size();
    if (out_.run_time == absl::InfiniteDuration() || out_.ranks.empty()) return;
    out_.slot_hours = out_.slots * absl::ToDoubleHours(out_.run_time);
  }

  // Its reason in this decision; the one in its row may be of the round before.
  void FindReason() {
    if (const PlaceGang* gang = FindPlaced(decision_, id_)) {
      out_.reason = gang->reason;
      return;
    }
    for (const Waiting& waiting : decision_.plan.waiting) {
      if (waiting.job_id == id_) out_.reason = waiting.message;
    }
  }

  void FindBlockers() {
    out_.blockers = AdmissionBlockers(*world_, job(), context_);
    if (!out_.blockers.empty()) {
      Lift([this](Draft& draft) { LiftAdmission(draft, id_, context_); });
    }
    position_ = FindPosition(*world_, id_, decision_, context_);
    if (!IsPlaced() && BlockByArray()) {
      Lift([this](Draft& draft) { LiftArray(draft, id_); });
      position_ = FindPosition(*world_, id_, decision_, context_);
    }
    if (!IsPlaced() && BlockByQuota()) {
      Lift([this](Draft& draft) { LiftQuotas(draft, id_); });
      position_ = FindPosition(*world_, id_, decision_, context_);
    }
    ListAhead();
    if (!IsPlaced()) BlockByOrder(BlockByRoom());
  }

  bool BlockByArray() {
    const ArrayTask& array = job().array;
    if (array.at_a_time == 0 || position_.of_array < array.at_a_time) return false;
    Block({.kind = BlockerKind::kArray,
           .message = absl::StrCat("waits for others of array ", array.array_id, ": at most ",
                                   array.at_a_time, " of it may run at a time"),
           .needed = "1",
           .available = absl::StrCat("0 of ", array.at_a_time)});
    return true;
  }

  bool BlockByQuota() {
    const std::string& name = job().settings->project;
    const Project* project = world_->FindProject(name);
    if (project == nullptr) return false;
    const uint32_t slots = needs().min_ranks * needs().slots_per_rank;
    const QuotaHolder holder{.project = project, .project_name = name, .user = job().owner};
    std::optional<std::string> why = WhyOverSlots(holder, position_.use, slots);
    const bool is_kept = !why.has_value() && position_.reserved_for != 0 &&
                         WhyOverSlots(holder, position_.with_reserved, slots).has_value();
    const uint64_t behind = is_kept ? position_.reserved_for : position_.over_quota;
    if (!why.has_value() && behind == 0) return false;
    const uint64_t first = why.has_value() ? 0 : behind;
    Block({.kind = BlockerKind::kQuota,
           .message = first == 0 ? *why
                                 : absl::StrCat("waits behind ", NameOf(*world_->FindJob(first)),
                                                " of the same project, which ",
                                                is_kept ? "needs what is left of the quota"
                                                        : "is over quota"),
           .needed = absl::StrCat(slots, slots == 1 ? " slot" : " slots"),
           .available = QuotaLeft(*project),
           .job_id = first});
    return true;
  }

  std::string QuotaLeft(const Project& project) const {
    std::optional<uint32_t> least;
    uint32_t of = 0;
    const auto bound = [&](const Quota& quota, const Use& use) {
      if (!quota.slots.has_value()) return;
      const uint32_t left = *quota.slots - std::min(*quota.slots, use.slots);
      if (least.has_value() && *least <= left) return;
      least = left;
      of = *quota.slots;
    };
    bound(project.quota, position_.with_reserved.all);
    bound(project.QuotaOf(job().owner), position_.with_reserved.Of(job().owner));
    return least.has_value() ? absl::StrCat(*least, " of ", of, " left") : "";
  }

  // Pools that count by now.
  std::set<std::string> Pools() const {
    std::set<std::string> pools;
    for (const JobNeeds::Pool& pool : needs().pools) {
      if (IsOpenTo(job(), pool, world_->LedgerTime(context_.now))) pools.insert(pool.name);
    }
    return pools;
  }

  // Empty lists where nothing is in the way but what it waits for itself.
  void ListAhead() {
    const std::set<std::string> pools = Pools();
    for (uint64_t id : position_.before) {
      const JobNeeds& other = world_->FindJob(id)->settings->needs;
      const bool same =
          other.slot_kind == needs().slot_kind &&
          std::any_of(other.pools.begin(), other.pools.end(),
                      [&](const JobNeeds::Pool& pool) { return pools.count(pool.name) != 0; });
      if (!same) continue;
      ++out_.ahead_count;
      if (out_.ahead.size() < Explanation::kMaxListed) out_.ahead.push_back(id);
    }
  }

  // True when it would fit if it were alone in the queue.
  bool BlockByRoom() {
    const std::set<std::string> pools = Pools();
    std::vector<Blocker> lacking;
    for (const JobNeeds::Pool& pool : needs().pools) {
      if (pools.count(pool.name) == 0) {
        const absl::Duration waited = Waited(job(), world_->LedgerTime(context_.now));
        lacking.push_back({.kind = BlockerKind::kPool,
                           .is_hint = true,
                           .pool = pool.name,
                           .message = absl::StrCat("pool ", pool.name,
                                                   " counts only once it has waited that long"),
                           .needed = HumanDuration(pool.after),
                           .available = HumanDuration(absl::Floor(waited, absl::Seconds(1)))});
        continue;
      }
      std::vector<Blocker> here = ShortfallInPool(*world_, needs(), pool.name);
      if (here.empty()) return true;
      std::move(here.begin(), here.end(), std::back_inserter(lacking));
    }
    const std::string who = WhoMakesWay();
    for (Blocker& blocker : lacking) {
      const bool room = blocker.kind == BlockerKind::kSlots || blocker.kind == BlockerKind::kCpus ||
                        blocker.kind == BlockerKind::kMemory;
      if (room) blocker.message += who;
      Block(std::move(blocker));
    }
    return false;
  }

  std::string WhoMakesWay() const {
    std::set<uint64_t> jobs;
    for (const StopGang& stop : decision_.plan.stop) {
      if (stop.for_job == id_) jobs.insert(stop.job_id);
    }
    for (uint64_t id : *world_->active_jobs) {
      const Job& other = *world_->FindJob(id);
      if (other.has_live_attempt() && other.current->preempted_by == id_) jobs.insert(id);
    }
    return jobs.empty() ? ""
                        : absl::StrCat("; makes way for it: job ", absl::StrJoin(jobs, ", job "));
  }

  // Who comes first. `fits`: there would be room, but for them.
  void BlockByOrder(bool fits) {
    const std::set<std::string> pools = Pools();
    const std::set<uint64_t> before(position_.before.begin(), position_.before.end());
    bool found = false;
    for (const ReservedJob& reserved : decision_.reserved) {
      const bool ahead = before.count(reserved.job_id) != 0 && pools.count(reserved.pool) != 0;
      if (!ahead || reserved.kind != needs().slot_kind) continue;
      Blocker blocker{
          .kind = BlockerKind::kOrder, .pool = reserved.pool, .job_id = reserved.job_id};
      blocker.message = absl::StrCat(NameOf(*world_->FindJob(reserved.job_id)),
                                     " comes first in pool ", reserved.pool);
      if (fits) absl::StrAppend(&blocker.message, ", and what is free is kept for it");
      DescribeReservation(reserved, fits, blocker);
      Block(std::move(blocker));
      found = true;
    }
    if (found || (!fits && out_.ahead.empty())) return;
    if (out_.ahead.empty()) {
      const std::string unseen = WhyDataUnseen(*world_, needs(), context_.now);
      Block({.kind = unseen.empty() ? BlockerKind::kOrder : BlockerKind::kWorkers,
             .message = unseen.empty() ? "waits for the scheduler's next round" : unseen});
      return;
    }
    const Job& first = *world_->FindJob(out_.ahead.front());
    Block({.kind = BlockerKind::kOrder,
           .message = absl::StrCat(NameOf(first), " comes first"),
           .needed = absl::StrCat("the start of ", out_.ahead_count,
                                  out_.ahead_count == 1 ? " job" : " jobs"),
           .job_id = first.id});
  }

  // Until when slots are kept for that job, and whether this one could use them meanwhile.
  void DescribeReservation(const ReservedJob& reserved, bool fits, Blocker& blocker) const {
    blocker.needed = absl::StrCat("the start of job ", reserved.job_id);
    if (reserved.start == absl::InfiniteFuture()) return;
    blocker.available = absl::StrCat("by ", TimeText(reserved.start));
    const bool could_pass = context_.wall + out_.run_time <= reserved.start;
    if (!fits || could_pass) return;
    blocker.needed =
        absl::StrCat("a run time of at most ",
                     HumanDuration(std::max(reserved.start - context_.wall, absl::ZeroDuration())));
    blocker.available = out_.run_time == absl::InfiniteDuration()
                            ? "unknown: declare scheduling.expected_run_time"
                            : HumanDuration(out_.run_time);
  }

  void FindStart(const Snapshot& real) {
    const Job& now = *real.FindJob(id_);
    if (now.held || now.suspending || now.state == JobState::kSuspended) {
      out_.why_unknown = now.held ? "it is held" : "it is suspended";
      return;
    }
    context_.settings.awaits_data_looks = false;
    Outlook outlook = LookAhead(real, id_, context_);
    out_.start = outlook.start;
    out_.ranks = std::move(outlook.ranks);
    out_.why_unknown = std::move(outlook.why_unknown);
    out_.rests_on = std::move(outlook.rests_on);
    out_.rests_on_count = out_.rests_on.size();
    if (out_.rests_on.size() > Explanation::kMaxListed) {
      out_.rests_on.resize(Explanation::kMaxListed);
    }
  }

  const uint64_t id_;
  ScheduleContext context_;
  std::shared_ptr<const Snapshot> world_;
  Decision decision_;  // in that world
  QueuePosition position_;
  Explanation out_;
};

}  // namespace

Explanation Explain(const Snapshot& snapshot, uint64_t job_id, const ScheduleContext& context) {
  return Inquiry(snapshot, job_id, context).Run();
}

Explanation ExplainNew(const Snapshot& snapshot, const JobSettings& settings,
                       const std::string& owner, const ScheduleContext& context) {
  Draft draft(snapshot);
  Job job;
  job.settings = std::make_shared<const JobSettings>(settings);
  job.owner = owner;
  job.submitted = context.wall;
  job.held = settings.scheduling.hold;
  job.not_before_at = context.now;
  const uint64_t id = draft.AddJob(std::move(job)).id;
  draft.AddEvent({.sequence = 0,
                  .job_id = id,
                  .time = context.wall,
                  .from = JobState::kPending,
                  .to = JobState::kPending,
                  .reason = Reason::kSubmitted,
                  .actor = "",
                  .message = "",
                  .attempt = 0,
                  .at = snapshot.LedgerTime(context.now)});
  const std::shared_ptr<const Snapshot> with_it = draft.Finish();
  // Nobody is asked to look at the data of a job that is not there.
  ScheduleContext looked_at = context;
  looked_at.settings.awaits_data_looks = false;
  return Explain(*with_it, id, looked_at);
}

}  // namespace muster::controller
