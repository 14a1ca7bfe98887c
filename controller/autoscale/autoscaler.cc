#include "controller/autoscale/autoscaler.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/log.h"
#include "common/base/units.h"
#include "common/metrics/metric_names.h"
#include "controller/policy/autoscale/scale_rules.h"

namespace muster::controller {
namespace {

constexpr char kActor[] = "autoscaler";

// There, or expected back in seconds.
bool IsThere(const Worker& worker) { return !worker.lost && !worker.draining; }

std::string Workers(uint32_t count) {
  return absl::StrCat(count, count == 1 ? " worker" : " workers");
}

}  // namespace

Autoscaler::Autoscaler(Engine& engine, Clock& clock, MetricFamilies& families, absl::Duration every,
                       std::vector<Pool> pools)
    : engine_(engine),
      clock_(clock),
      families_(families),
      every_(every),
      started_at_(clock.SinceBoot()),
      pools_(std::move(pools)),
      states_(pools_.size()),
      thread_("autoscaler", [this] { return LookOnce(); }) {
  for (const Pool& pool : pools_) {
    families_.Set(metric::kAutoscaleFailing, {pool.scaling.pool}, 0);
    families_.Add(metric::kAutoscaleFailuresTotal, {pool.scaling.pool}, 0);
  }
}

void Autoscaler::Stop() {
  for (const Pool& pool : pools_) pool.scaler->Stop();
  thread_.Stop();
}

bool Autoscaler::MayBeBlind() const {
  return clock_.SinceBoot() - started_at_ < engine_.options().startup_grace ||
         !engine_.held().empty();
}

absl::Duration Autoscaler::LookOnce() {
  if (MayBeBlind()) return every_;
  const std::shared_ptr<const Snapshot> snapshot = engine_.snapshot();
  const absl::Duration now = clock_.SinceBoot();
  std::vector<PoolRoom> rooms;
  std::vector<PoolSight> sights;
  for (size_t i = 0; i < pools_.size(); ++i) {
    sights.push_back(See(*snapshot, pools_[i].scaling, states_[i]));
    const std::optional<WorkerFacts>& seen = states_[i].seen;
    rooms.push_back({&pools_[i].scaling,
                     RoomFor(pools_[i].scaling, sights[i].workers.size(), now, states_[i].memory),
                     seen.has_value() ? &*seen : nullptr});
  }
  ScheduleContext context{.now = now, .wall = clock_.Now()};
  context.settings.use_half_life = engine_.options().use_half_life;
  const std::map<std::string, PoolDemand> demand = FindDemand(*snapshot, rooms, context);
  for (size_t i = 0; i < pools_.size(); ++i) {
    const auto lacks = demand.find(pools_[i].scaling.pool);
    if (lacks != demand.end()) {
      sights[i].shortage = lacks->second.shortage;
      sights[i].wanted_back = lacks->second.wanted_back;
    }
    // A silent one is lost, or speaks again, in seconds; so after a start of musterd.
    if (sights[i].settled) Look(pools_[i], states_[i], std::move(sights[i]));
  }
  ForgetThoseGone(*snapshot);
  return every_;
}

PoolSight Autoscaler::See(const Snapshot& snapshot, const PoolScaling& scaling,
                          State& state) const {
  const absl::Duration now = clock_.SinceBoot();
  PoolSight sight;
  std::map<std::string, absl::Duration> idle_since;
  snapshot.workers.ForEach([&](const Worker& worker) {
    if (worker.facts.pool != scaling.pool || !IsThere(worker)) return;
    ScaledWorker seen;
    seen.name = worker.name;
    seen.leaving = LeavesByScaling(worker);
    seen.kept_out = (worker.cordoned && !seen.leaving) || worker.quarantined();
    // One that is silent may hold what nobody has heard of.
    const bool speaks = worker.pulse.connected && !worker.pulse.suspect;
    if (speaks) state.seen = worker.facts;
    sight.settled = sight.settled && speaks;
    if (speaks && worker.pulse.holders.empty()) {
      const auto known = state.idle_since.find(worker.name);
      seen.idle_since = known == state.idle_since.end() ? now : known->second;
      idle_since.emplace(worker.name, seen.idle_since);
    }
    sight.workers.push_back(std::move(seen));
  });
  state.idle_since = std::move(idle_since);
  return sight;
}

void Autoscaler::Look(Pool& pool, State& state, PoolSight sight) {
  const PoolScaling& scaling = pool.scaling;
  // While its scaler is left alone, what is there is used as well as it can be.
  const bool may_ask = clock_.SinceBoot() >= state.wait_until;
  absl::Status status;
  if (may_ask) {
    const absl::StatusOr<std::optional<uint32_t>> asked = pool.scaler->Asked();
    status = asked.status();
    if (asked.ok()) state.scaler_says = *asked;
  }
  sight.asked = state.scaler_says;
  const auto there = static_cast<uint32_t>(sight.workers.size());
  const PoolDecision decision = DecideScale(scaling, sight, clock_.SinceBoot(), state.memory);
  for (const std::string& worker : decision.undrain) {
    Drain(scaling, worker, /*drained=*/false);
    // It gets as long as any other to be of use, as while it looks at a job's data.
    state.idle_since.erase(worker);
  }
  if (!may_ask) return;
  if (!status.ok()) return NoteOutcome(scaling, state, *pool.scaler, status);
  for (const std::string& worker : decision.drain) Drain(scaling, worker, /*drained=*/true);
  const absl::Duration now = clock_.SinceBoot();
  const bool repeats =
      !state.scaler_says.has_value() && there < decision.wanted && now >= state.repeat_at;
  if (decision.wanted != decision.asked || repeats) {
    state.repeat_at = now + kRepeat;
    status = pool.scaler->ScaleTo(decision);
    if (status.ok()) {
      Log(LogLevel::kInfo, "autoscaled",
          {{"pool", scaling.pool},
           {"from", decision.asked},
           {"to", decision.wanted},
           {"there", there},
           {"leaving", absl::StrJoin(decision.leaving, " ")}});
    }
  }
  if (status.ok()) NoteAsked(decision.wanted, clock_.SinceBoot(), state.memory);
  families_.Set(metric::kAutoscaleWantedWorkers, {scaling.pool}, decision.wanted);
  NoteOutcome(scaling, state, *pool.scaler, status);
  MutexLock lock(mutex_);
  Shown& shown = shown_[scaling.pool];
  shown.wanted = decision.wanted;
  shown.there = there;
  shown.distrusted = clock_.SinceBoot() < state.memory.distrusted_until;
}

void Autoscaler::NoteOutcome(const PoolScaling& scaling, State& state, const Scaler& scaler,
                             const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    shown_[scaling.pool].trouble = std::string(status.message());
  }
  families_.Set(metric::kAutoscaleFailing, {scaling.pool}, status.ok() ? 0 : 1);
  if (status.ok()) {
    if (state.failures > 0) Log(LogLevel::kInfo, "autoscale_works_again", {{"pool", scaling.pool}});
    state.failures = 0;
    return;
  }
  if (absl::IsCancelled(status)) return;  // musterd stops
  families_.Add(metric::kAutoscaleFailuresTotal, {scaling.pool});
  absl::Duration wait = kFirstWait;
  for (int i = 0; i < state.failures && wait < kLongestWait; ++i) wait *= 2;
  wait = std::max(std::min(wait, kLongestWait), scaler.asked_to_wait());
  ++state.failures;
  state.wait_until = clock_.SinceBoot() + wait;
  Log(LogLevel::kWarning, "autoscale_failed",
      {{"pool", scaling.pool},
       {"error", status.ToString()},
       {"failures", state.failures},
       {"again_in", HumanDuration(wait)}});
}

void Autoscaler::Drain(const PoolScaling& scaling, const std::string& worker, bool drained) {
  const std::string reason =
      drained ? absl::StrCat(kScaleDownReason, "idle for ", HumanDuration(scaling.idle_after)) : "";
  Log(LogLevel::kInfo, drained ? "autoscale_drains" : "autoscale_undrains",
      {{"pool", scaling.pool}, {"worker", worker}});
  // Should it have got a rank since, that runs to its end, and the worker is undrained.
  Post(CordonWorker{.worker = worker,
                    .cordoned = drained,
                    .reason = reason,
                    .actor = kActor,
                    .let_finish = true});
}

// What went as it was meant to is no machine that anybody should look for.
void Autoscaler::ForgetThoseGone(const Snapshot& snapshot) {
  std::set<std::string> scaled;
  for (const Pool& pool : pools_) scaled.insert(pool.scaling.pool);
  std::vector<std::string> gone;
  snapshot.workers.ForEach([&](const Worker& worker) {
    if (worker.lost && scaled.count(worker.facts.pool) != 0 && LeavesByScaling(worker) &&
        worker.pulse.holders.empty()) {
      gone.push_back(worker.name);
    }
  });
  for (std::string& worker : gone) {
    Post(ForgetWorker{.worker = std::move(worker), .actor = kActor});
  }
}

void Autoscaler::Post(Event event) {
  // A refusal (a full disk, a worker that has changed since) is met by the next look.
  engine_.Post(std::move(event), [](const EventResult&) {});
}

std::vector<Blocker> Autoscaler::Hints(const JobNeeds& needs) const {
  std::vector<Blocker> hints;
  MutexLock lock(mutex_);
  for (const JobNeeds::Pool& pool : needs.pools) {
    const auto found = shown_.find(pool.name);
    if (found == shown_.end()) continue;
    const Shown& shown = found->second;
    Blocker hint{.kind = BlockerKind::kWorkers, .is_hint = true, .pool = pool.name};
    hint.message = absl::StrCat(Workers(shown.wanted), " of pool ", pool.name,
                                shown.wanted == 1 ? " is" : " are", " asked for, ", shown.there,
                                shown.there == 1 ? " is there" : " are there");
    if (shown.distrusted) {
      absl::StrAppend(&hint.message, "; those that were asked for do not come");
    }
    if (!shown.trouble.empty()) {
      absl::StrAppend(&hint.message, "; asking for more fails: ", shown.trouble);
    }
    hint.needed = Workers(shown.wanted);
    hint.available = absl::StrCat(shown.there);
    hints.push_back(std::move(hint));
  }
  return hints;
}

bool Autoscaler::CouldCome(const JobNeeds& needs) const {
  return std::any_of(pools_.begin(), pools_.end(),
                     [&](const Pool& pool) { return CouldHold(pool.scaling, needs); });
}

}  // namespace muster::controller
