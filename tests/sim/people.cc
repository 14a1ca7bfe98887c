#include "tests/sim/people.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::sim {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(10);

}  // namespace

People::People(Agenda& agenda, Trace& trace, Network& network, SimController& controller,
               Model& model, Dice dice, Habits habits)
    : agenda_(agenda),
      trace_(trace),
      network_(network),
      controller_(controller),
      model_(model),
      dice_(dice),
      habits_(habits) {}

void People::Begin() {
  if (habits_.quota > 0) SetQuota();
  SubmitSoon();
  ActSoon();
}

void People::SetQuota() {
  if (quota_set_) return;
  Call(mc::SetProject{.project = "red",
                      .weight = 1 + static_cast<double>(habits_.quota % 3),
                      .quota = mc::Quota{.slots = habits_.quota},
                      .each_user = mc::Quota{.slots = std::max(1u, habits_.quota - 1)},
                      .actor = "user:ann"},
       [this](const mc::EventResult& result) {
         quota_set_ |= result.status.ok();
         if (result.status.ok()) model_.OnQuota("red", habits_.quota);
       });
  agenda_.After(kPatience, [this] { SetQuota(); });
}

void People::SubmitSoon() {
  agenda_.After(dice_.Exponential(habits_.submit_every), [this] {
    if (stopped_ || submitted_ >= habits_.max_jobs) return;
    if (habits_.quota == 0 || quota_set_) Submit();
    SubmitSoon();
  });
}

void People::ActSoon() {
  agenda_.After(dice_.Exponential(habits_.cancel_every), [this] {
    if (stopped_) return;
    if (!accepted_.empty()) {
      const Request& request = *accepted_[dice_.Below(accepted_.size())];
      switch (dice_.Below(7)) {
        case 0:
          AskForOther(request);
          break;
        case 1:
          Try(std::make_shared<Request>(
              Request{request.owner, request.key, request.settings}));  // once more
          break;
        case 2:
          Reread();
          break;
        case 3:
          Cancel(jobs_[dice_.Below(jobs_.size())]);
          break;
        default:
          ControlSomething();
      }
    }
    ActSoon();
  });
}

void People::Submit() {
  ++submitted_;
  auto settings = std::make_shared<mc::JobSettings>();
  settings->name = absl::StrCat("job-", submitted_);
  settings->project = dice_.Chance(0.5) ? "red" : "blue";
  settings->priority = static_cast<int32_t>(dice_.Below(3));
  const uint32_t most = settings->project == "red" && habits_.quota > 0
                            ? std::max(1u, habits_.quota - 1)
                            : habits_.slots;
  settings->needs.slots_per_rank = dice_.Chance(0.15) && habits_.widest >= 2 && most >= 2 ? 2 : 1;
  // Two slots of a rank are on one machine, so that only a part of the slots may do.
  const uint32_t ranks = settings->needs.slots_per_rank == 2 ? 1 : most;
  settings->needs.min_ranks =
      static_cast<uint32_t>(1 + dice_.Below(std::min(ranks, dice_.Chance(0.3) ? ranks : 2)));
  settings->needs.max_ranks = std::min<uint32_t>(ranks, settings->needs.min_ranks + dice_.Below(3));
  settings->needs.pools = {{.name = "default", .after = absl::ZeroDuration()}};
  settings->needs.wait_for_capacity = true;
  Schedule(*settings);
  settings->restart = {.max_restarts = static_cast<uint32_t>(dice_.Below(6)),
                       .backoff = absl::Seconds(1),
                       .max_backoff = absl::Minutes(1),
                       .progress_timeout = dice_.Between(absl::Seconds(60), absl::Minutes(4))};
  settings->keep_last = static_cast<uint32_t>(1 + dice_.Below(3));
  settings->checkpoint_root = "/ckpt";
  settings->spec_json = EncodePlan({.steps = dice_.Between(1, 60),
                                    .save_every = dice_.Between(1, 10),
                                    .step_ms = dice_.Between(500, 12'000),
                                    .fail = dice_.Chance(0.6) ? habits_.fail : 0});
  auto request = std::make_shared<Request>();
  request->owner = dice_.Chance(0.5) ? "ann" : "bob";
  request->key = absl::StrCat("key-", submitted_);
  request->settings = std::move(settings);
  ++waiting_;
  Try(request);
}

void People::Call(mc::Event event, std::function<void(const mc::EventResult&)> done) {
  network_.Datagram([this, event = std::move(event), done = std::move(done)] {
    controller_.Post(event, [this, done](const mc::EventResult& result) {
      network_.Datagram([done, result] { done(result); });
    });
  });
}

void People::Try(const std::shared_ptr<Request>& request) {
  if (request->answered) return;
  Call(
      mc::SubmitJob{
          .settings = request->settings, .owner = request->owner, .idempotency_key = request->key},
      [this, request](const mc::EventResult& result) { OnAnswer(request, result); });
  agenda_.After(kPatience, [this, request] { Try(request); });
}

void People::OnAnswer(const std::shared_ptr<Request>& request, const mc::EventResult& result) {
  const absl::StatusCode code = result.status.code();
  if (code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kResourceExhausted) {
    return;  // said again
  }
  // A job that it should wait for has ended otherwise.
  const bool hopeless =
      code == absl::StatusCode::kFailedPrecondition && !request->settings->scheduling.after.empty();
  if (hopeless) {
    if (!std::exchange(request->answered, true)) --waiting_;
    return;
  }
  if (!result.status.ok()) {
    trace_.Fail("a good submit was refused: ", result.status.ToString());
    return;
  }
  model_.OnSubmitted({request->owner, request->key}, request->settings->spec_json, result.job_id);
  if (std::exchange(request->answered, true)) return;
  trace_.Note(request->owner, " submitted ", request->key, ": job ", result.job_id);
  accepted_.push_back(request);
  jobs_.push_back(result.job_id);
  if (waiting_ > 0) --waiting_;
}

void People::AskForOther(const Request& request) {
  auto other = std::make_shared<mc::JobSettings>(*request.settings);
  other->spec_json = EncodePlan({.steps = 1, .save_every = 1, .step_ms = 1, .fail = 0});
  if (other->spec_json == request.settings->spec_json) return;
  Call(mc::SubmitJob{.settings = other, .owner = request.owner, .idempotency_key = request.key},
       [this, key = request.key](const mc::EventResult& result) {
         if (result.status.ok()) {
           trace_.Fail("another job was accepted under the key ", key, " as job ", result.job_id);
         }
       });
}

// Cancelled are jobs of even numbers, the other verbs are for odd ones: so that a cancel is final.
void People::Cancel(uint64_t job_id) {
  if (job_id % 2 == 1) return;
  Call(mc::CancelJob{.job_id = job_id, .actor = "user:ann"},
       [this, job_id](const mc::EventResult& result) {
         trace_.Note("cancel of job ", job_id, ": ", result.status.ToString());
         if (result.status.ok()) model_.OnCancelled(job_id);
       });
}

void People::Reread() {
  if (controller_.published() == nullptr || controller_.published()->checkpoints.size() == 0)
    return;
  const uint64_t id = 1 + dice_.Below(controller_.published()->checkpoints.last_id());
  Call(mc::RequestVerify{.checkpoint_id = id}, [](const mc::EventResult&) {});
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
    scheduling.begin = agenda_.clock().Now() + dice_.Between(absl::Seconds(10), absl::Minutes(5));
  }
  if (!jobs_.empty() && dice_.Chance(0.15)) {
    scheduling.after.push_back({.job_id = jobs_[dice_.Below(jobs_.size())],
                                .on = static_cast<mc::SchedulingSettings::On>(dice_.Below(3))});
  }
}

void People::Control(uint64_t job_id, mc::ControlJob::Verb verb) {
  using Verb = mc::ControlJob::Verb;
  const bool holds = verb == Verb::kHold || verb == Verb::kSuspend;
  if (holds) held_.insert(job_id);
  if (!holds) model_.OnMayStart(job_id);
  const uint64_t sent = ++requests_;
  Call(mc::ControlJob{.verb = verb,
                      .job_id = job_id,
                      .actor = "user:bob",
                      .request_id = absl::StrCat("request-", sent)},
       [this, job_id, verb, holds, sent](const mc::EventResult& result) {
         trace_.Note("verb ", static_cast<int>(verb), " of job ", job_id, ": ",
                     result.status.ToString());
         if (!result.status.ok() || controller_.published() == nullptr) return;
         // Unless something else was asked meanwhile.
         if (holds && sent == requests_) {
           model_.OnHeld(job_id, controller_.published()->FindJob(job_id)->attempt);
         }
       });
}

void People::ControlSomething() {
  using Verb = mc::ControlJob::Verb;
  if (!habits_.workers.empty() && dice_.Chance(0.2)) {
    return Cordon(habits_.workers[dice_.Below(habits_.workers.size())], dice_.Chance(0.5));
  }
  const uint64_t job_id = jobs_[dice_.Below(jobs_.size())];
  if (job_id % 2 == 0) return;
  if (dice_.Chance(0.2)) {
    return Call(mc::UpdateJob{.job_id = job_id,
                              .actor = "user:bob",
                              .priority = static_cast<int32_t>(dice_.Below(3))},
                [](const mc::EventResult&) {});
  }
  constexpr Verb kVerbs[] = {Verb::kHold, Verb::kRelease, Verb::kSuspend, Verb::kResume,
                             Verb::kRequeue};
  Control(job_id, kVerbs[dice_.Below(std::size(kVerbs))]);
}

void People::Cordon(const std::string& worker, bool cordoned) {
  if (cordoned) drained_.insert(worker);
  if (!cordoned) model_.OnCordoned(worker, false);
  Call(
      mc::CordonWorker{
          .worker = worker, .cordoned = cordoned, .reason = "repair", .actor = "user:ann"},
      [this, worker, cordoned, sent = ++requests_](const mc::EventResult& result) {
        trace_.Note("cordon ", worker, " ", cordoned, ": ", result.status.ToString());
        if (result.status.ok() && cordoned && sent == requests_) model_.OnCordoned(worker, true);
      });
}

void People::Stop() {
  stopped_ = true;
  LetGo();
}

void People::LetGo() {
  using Verb = mc::ControlJob::Verb;
  if (const auto& now = controller_.published(); now != nullptr) {
    for (const std::string& worker : drained_) {
      const mc::Worker* row = now->FindWorker(worker);
      if (row != nullptr && row->cordoned) Cordon(worker, false);
    }
    for (const uint64_t id : held_) {
      const mc::Job* job = now->FindJob(id);
      if (job == nullptr || mc::IsTerminal(job->state)) continue;
      if (job->held) Control(id, Verb::kRelease);
      if (job->suspending || job->state == mc::JobState::kSuspended) Control(id, Verb::kResume);
    }
  }
  agenda_.After(kPatience, [this] { LetGo(); });
}

}  // namespace muster::sim
