#include "tests/sim/people.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::sim {
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
  if (habits_.quota > 0) {
    quotas_ = {.slots = habits_.quota, .slots_of_user = habits_.user_quota};
    BoundQueues();
    AskForQuotas();
    if (habits_.quotas_change) ChangeQuotasSoon();
  }
  SubmitSoon();
  ActSoon();
}

void People::AskForQuotas() {
  quotas_asked_ = true;
  model_.OnQuotasAsked("red", quotas_);
  SayQuotas();
}

void People::SayQuotas() {
  if (!quotas_asked_) return;
  Call(mc::SetProject{.project = "red",
                      .weight = 1 + static_cast<double>(habits_.quota % 3),
                      .quota = mc::Quota{.slots = quotas_.slots, .queued = quotas_.queued},
                      .each_user = mc::Quota{.slots = quotas_.slots_of_user,
                                             .queued = quotas_.queued_of_user},
                      .actor = "user:ann"},
       [this](const mc::EventResult& result) {
         if (!result.status.ok() || !std::exchange(quotas_asked_, false)) return;
         quotas_set_ = true;
         quotas_set_at_ = agenda_.now();
         model_.OnQuotas("red", quotas_);
       });
  agenda_.After(kPatience, [this] { SayQuotas(); });
}

// An array is not torn apart: the bounds leave room for the largest one.
void People::BoundQueues() {
  quotas_.queued = quotas_.queued_of_user = std::nullopt;
  if (!habits_.queues_are_bounded) return;
  quotas_.queued = static_cast<uint32_t>(dice_.Between(kLargestArray, 2 * kLargestArray));
  quotas_.queued_of_user = static_cast<uint32_t>(dice_.Between(kLargestArray, *quotas_.queued));
}

// Each job that was submitted still fits.
void People::ChangeQuotasSoon() {
  agenda_.After(dice_.Exponential(absl::Minutes(3)), [this] {
    if (stopped_) return;
    // A request that was said twice may come after its acknowledgement.
    const bool settled = !quotas_asked_ && agenda_.now() > quotas_set_at_ + 3 * kPatience;
    if (settled) {
      quotas_.slots = static_cast<uint32_t>(dice_.Between(habits_.user_quota, habits_.slots));
      quotas_.slots_of_user =
          static_cast<uint32_t>(dice_.Between(habits_.user_quota, quotas_.slots));
      BoundQueues();
      AskForQuotas();
    }
    ChangeQuotasSoon();
  });
}

void People::SubmitSoon() {
  agenda_.After(dice_.Exponential(habits_.submit_every), [this] {
    if (stopped_ || submitted_ >= habits_.max_jobs) return;
    if (habits_.quota == 0 || quotas_set_) Submit();
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
              Request{request.owner, request.key, request.settings, request.array}));  // once more
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

void People::Call(mc::Event event, std::function<void(const mc::EventResult&)> done) {
  network_.Datagram([this, event = std::move(event), done = std::move(done)] {
    controller_.Post(event, [this, done](const mc::EventResult& result) {
      network_.Datagram([done, result] { done(result); });
    });
  });
}

void People::CheckFound(uint64_t job_id, const mc::EventResult& result) {
  if (!absl::IsNotFound(result.status)) return;
  trace_.Fail("a request for job ", job_id, " did not find it: ", result.status.ToString());
}

bool People::IsForCancels(uint64_t job_id) const {
  const auto array = array_of_.find(job_id);
  return (array == array_of_.end() ? job_id : array->second) % 2 == 0;
}

std::vector<uint64_t> People::ArrayOf(uint64_t job_id) const {
  const auto array = array_of_.find(job_id);
  if (array == array_of_.end()) return {job_id};
  std::vector<uint64_t> jobs;
  for (const auto& [id, first] : array_of_) {
    if (first == array->second) jobs.push_back(id);
  }
  return jobs;
}

void People::Cancel(uint64_t job_id) {
  if (!IsForCancels(job_id)) return;
  const bool whole = array_of_.count(job_id) != 0 && dice_.Chance(0.4);
  Call(mc::CancelJob{.job_id = job_id, .actor = "user:ann", .whole_array = whole},
       [this, job_id, whole](const mc::EventResult& result) {
         trace_.Note("cancel of job ", job_id, whole ? " and its array: " : ": ",
                     result.status.ToString());
         CheckFound(job_id, result);
         if (!result.status.ok()) return;
         if (!whole) return model_.OnCancelled(job_id);
         const std::vector<uint64_t> jobs = ArrayOf(job_id);
         if (result.jobs != jobs.size()) return;  // some had ended
         for (const uint64_t id : jobs) model_.OnCancelled(id);
       });
}

void People::Reread() {
  if (controller_.published() == nullptr || controller_.published()->checkpoints.size() == 0)
    return;
  const uint64_t id = 1 + dice_.Below(controller_.published()->checkpoints.last_id());
  Call(mc::RequestVerify{.checkpoint_id = id}, [](const mc::EventResult&) {});
}

void People::Control(uint64_t job_id, mc::ControlJob::Verb verb, bool whole_array) {
  using Verb = mc::ControlJob::Verb;
  const bool holds = verb == Verb::kHold || verb == Verb::kSuspend;
  const std::vector<uint64_t> jobs = whole_array ? ArrayOf(job_id) : std::vector{job_id};
  for (const uint64_t id : jobs) {
    if (holds) held_.insert(id);
    if (!holds) model_.OnMayStart(id);
  }
  const uint64_t sent = ++requests_;
  Call(mc::ControlJob{.verb = verb,
                      .job_id = job_id,
                      .actor = "user:bob",
                      .whole_array = whole_array,
                      .request_id = absl::StrCat("request-", sent)},
       [this, jobs, verb, holds, sent](const mc::EventResult& result) {
         trace_.Note("verb ", static_cast<int>(verb), " of job ", jobs.front(),
                     jobs.size() > 1 ? " and its array: " : ": ", result.status.ToString());
         CheckFound(jobs.front(), result);
         if (!result.status.ok() || controller_.published() == nullptr) return;
         // Unless something else was asked meanwhile, or some of an array were left as they were.
         if (!holds || sent != requests_ || result.jobs != jobs.size()) return;
         for (const uint64_t id : jobs) {
           model_.OnHeld(id, controller_.published()->FindJob(id)->attempt);
         }
       });
}

void People::ControlSomething() {
  using Verb = mc::ControlJob::Verb;
  if (!habits_.workers.empty() && dice_.Chance(0.2)) {
    return Cordon(habits_.workers[dice_.Below(habits_.workers.size())], dice_.Chance(0.5));
  }
  const uint64_t job_id = jobs_[dice_.Below(jobs_.size())];
  if (IsForCancels(job_id)) return;
  const bool whole_array = array_of_.count(job_id) != 0 && dice_.Chance(0.4);
  if (dice_.Chance(0.2)) {
    return Call(mc::UpdateJob{.job_id = job_id,
                              .actor = "user:bob",
                              .whole_array = whole_array,
                              .priority = static_cast<int32_t>(dice_.Below(3))},
                [this, job_id](const mc::EventResult& result) { CheckFound(job_id, result); });
  }
  constexpr Verb kVerbs[] = {Verb::kHold, Verb::kRelease, Verb::kSuspend, Verb::kResume,
                             Verb::kRequeue};
  Control(job_id, kVerbs[dice_.Below(std::size(kVerbs))], whole_array);
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
      if (job->held) Control(id, Verb::kRelease, false);
      const bool suspended = job->suspending || job->state == mc::JobState::kSuspended;
      if (suspended) Control(id, Verb::kResume, false);
    }
  }
  agenda_.After(kPatience, [this] { LetGo(); });
}

}  // namespace muster::sim
