// What people submit: jobs of every kind, arrays of them, and the same once more.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/people.h"

namespace muster::sim {

void People::Submit() {
  ++submitted_;
  auto request = std::make_shared<Request>();
  request->owner = dice_.Chance(0.5) ? "ann" : "bob";
  request->key = absl::StrCat("key-", submitted_);
  if (dice_.Chance(0.12)) {
    const auto first = static_cast<uint32_t>(dice_.Below(3));
    request->array =
        mc::ArrayRange{.first = first,
                       .last = first + static_cast<uint32_t>(dice_.Between(1, kLargestArray - 1)),
                       .at_a_time = static_cast<uint32_t>(dice_.Below(3))};
    submitted_ += static_cast<int>(request->array->size()) - 1;
  }
  request->settings = Settings();
  ++waiting_;
  Try(request);
}

std::shared_ptr<const mc::JobSettings> People::Settings() {
  auto settings = std::make_shared<mc::JobSettings>();
  settings->name = absl::StrCat("job-", submitted_);
  settings->project = dice_.Chance(0.5) ? "red" : "blue";
  settings->priority = static_cast<int32_t>(dice_.Below(3));
  const uint32_t most =
      settings->project == "red" && habits_.quota > 0 ? habits_.user_quota : habits_.slots;
  settings->needs.slots_per_rank = dice_.Chance(0.15) && habits_.widest >= 2 && most >= 2 ? 2 : 1;
  // Two slots of a rank are on one machine, so that only a part of the slots may do.
  const uint32_t ranks = settings->needs.slots_per_rank == 2 ? 1 : most;
  settings->needs.min_ranks =
      static_cast<uint32_t>(1 + dice_.Below(std::min(ranks, dice_.Chance(0.3) ? ranks : 2)));
  // Also more than its quotas leave room for.
  const uint32_t widest = settings->needs.slots_per_rank == 2 ? 1 : habits_.slots;
  settings->needs.max_ranks =
      std::min<uint32_t>(widest, settings->needs.min_ranks + dice_.Below(3));
  settings->needs.pools = {{.name = "default", .after = absl::ZeroDuration()}};
  settings->needs.wait_for_capacity = true;
  Schedule(*settings);
  settings->restart = {.max_restarts = static_cast<uint32_t>(dice_.Below(6)),
                       .backoff = absl::Seconds(1),
                       .max_backoff = absl::Minutes(1),
                       .progress_timeout = dice_.Between(absl::Seconds(60), absl::Minutes(4))};
  settings->keep_last = static_cast<uint32_t>(1 + dice_.Below(3));
  settings->checkpoint_root = Storage::kRoot;
  settings->needs.root = Storage::kRoot;
  Dice data(habits_.data_seed + static_cast<uint64_t>(submitted_));
  if (habits_.data_seed != 0 && data.Chance(0.6)) {
    settings->needs.data = absl::StrCat("data-", data.Below(3));
  }
  JobPlan plan{.steps = dice_.Between(1, 60),
               .save_every = dice_.Between(1, 10),
               .step_ms = dice_.Between(500, 12'000),
               .fail = dice_.Chance(0.6) ? habits_.fail : 0};
  if (dice_.Chance(0.4)) {
    plan.kind = dice_.Chance(0.6) ? JobPlan::Kind::kCommand : JobPlan::Kind::kSilent;
  }
  plan.forgets = plan.kind == JobPlan::Kind::kCommand && dice_.Chance(0.75);
  // So that it commits the same steps again and again, more often than it may be restarted.
  if (plan.forgets) {
    plan.fail = 0.05 + 0.2 * dice_.Unit();
    plan.steps = dice_.Between(20, 60);
    plan.save_every = dice_.Between(1, 3);
    plan.step_ms = dice_.Between(500, 3000);
    settings->restart.max_restarts = static_cast<uint32_t>(dice_.Between(1, 3));
  }
  // Nobody can tell whether a program that says nothing gets on.
  const bool silent = plan.kind == JobPlan::Kind::kSilent;
  if (silent) settings->restart.progress_timeout = absl::InfiniteDuration();
  settings->spec = EncodePlan(plan);
  return settings;
}

void People::Schedule(mc::JobSettings& settings) {
  mc::SchedulingSettings& scheduling = settings.scheduling;
  scheduling.preemptible = dice_.Chance(0.8);
  if (dice_.Chance(0.1)) {
    scheduling.max_run_time = dice_.Between(absl::Seconds(30), absl::Minutes(8));
  }
  if (dice_.Chance(0.3)) {
    scheduling.expected_run_time = dice_.Between(absl::Seconds(30), absl::Minutes(8));
  }
  if (dice_.Chance(0.1)) {
    scheduling.begin = agenda_.TrueTime() + dice_.Between(absl::Seconds(10), absl::Minutes(5));
  }
  scheduling.hold = dice_.Chance(0.06);
  if (dice_.Chance(0.1)) {
    const absl::Time from = std::max(scheduling.begin, agenda_.clock().Now());
    scheduling.deadline = from + dice_.Between(absl::Minutes(1), absl::Minutes(12));
  }
  if (!jobs_.empty() && dice_.Chance(0.2)) {
    scheduling.after.push_back({.job_id = jobs_[dice_.Below(jobs_.size())],
                                .on = static_cast<mc::SchedulingSettings::On>(dice_.Below(3))});
  }
}

void People::Try(const std::shared_ptr<Request>& request) {
  if (request->answered) return;
  Call(mc::SubmitJob{.settings = request->settings,
                     .owner = request->owner,
                     .idempotency_key = request->key,
                     .array = request->array},
       [this, request](const mc::EventResult& result) { OnAnswer(request, result); });
  agenda_.After(kPatience, [this, request] { Try(request); });
}

void People::OnAnswer(const std::shared_ptr<Request>& request, const mc::EventResult& result) {
  const absl::StatusCode code = result.status.code();
  if (code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kResourceExhausted) {
    return;  // said again
  }
  // A job that it should wait for has ended otherwise, or the answers took longer than its time.
  const mc::SchedulingSettings& asked = request->settings->scheduling;
  const bool hopeless = code == absl::StatusCode::kFailedPrecondition &&
                        (!asked.after.empty() || asked.deadline != absl::InfiniteFuture());
  if (hopeless) {
    if (!std::exchange(request->answered, true)) --waiting_;
    return;
  }
  if (!result.status.ok()) {
    trace_.Fail("a good submit was refused: ", result.status.ToString());
    return;
  }
  model_.OnSubmitted({request->owner, request->key}, *request->settings, request->array,
                     result.job_id);
  if (std::exchange(request->answered, true)) return;
  const bool known = std::count(jobs_.begin(), jobs_.end(), result.job_id) != 0;
  if (known) return;  // it was said once more
  trace_.Note(request->owner, " submitted ", request->key, ": job ", result.job_id);
  accepted_.push_back(request);
  const uint32_t jobs = request->array.has_value() ? request->array->size() : 1;
  if (result.jobs != jobs) trace_.Fail("a submit of ", jobs, " jobs made ", result.jobs);
  for (uint64_t id = result.job_id; id < result.job_id + jobs; ++id) {
    jobs_.push_back(id);
    if (jobs > 1) array_of_[id] = result.job_id;
    if (!asked.hold) continue;
    held_.insert(id);
    model_.OnHeld(id, 0);
  }
  if (waiting_ > 0) --waiting_;
}

void People::AskForOther(const Request& request) {
  auto other = std::make_shared<mc::JobSettings>(*request.settings);
  other->spec = EncodePlan({.steps = 1, .save_every = 1, .step_ms = 1, .fail = 0});
  if (other->spec == request.settings->spec) return;
  Call(mc::SubmitJob{.settings = other,
                     .owner = request.owner,
                     .idempotency_key = request.key,
                     .array = request.array},
       [this, key = request.key](const mc::EventResult& result) {
         if (result.status.ok()) {
           trace_.Fail("another job was accepted under the key ", key, " as job ", result.job_id);
         }
       });
}

}  // namespace muster::sim
