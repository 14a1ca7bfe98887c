#include "controller/rules/jobs/data_look_rules.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "controller/policy/health/data_sight.h"
#include "controller/policy/placement/demand.h"
#include "controller/policy/queue/admission.h"
#include "controller/rules/jobs/job_driver.h"

namespace muster::controller {
namespace {

void MakeRoom(DataViews& views) {
  if (views.size() < kMaxDataViews) return;
  views.erase(std::min_element(views.begin(), views.end(), [](const auto& a, const auto& b) {
    return a.second.asked_at < b.second.asked_at;
  }));
}

void Ask(Draft& draft, const DataLook& look, const RuleContext& context) {
  const Job* job = draft.view().FindJob(look.job_id);
  const Worker* worker = draft.view().FindWorker(look.worker);
  const bool stands = job != nullptr && !IsTerminal(job->state) &&
                      !job->settings->needs.data.empty() && worker != nullptr &&
                      worker->pulse.connected && worker->pulse.checks_data &&
                      worker->pulse.stream == look.stream;
  if (!stands) return;
  const std::string& key = job->settings->needs.data;
  const DataView* known = DataViewOf(*worker, key);
  const bool is_out = known != nullptr && !known->answered;
  if (is_out != look.overdue) return;
  auto views = worker->pulse.data == nullptr ? std::make_shared<DataViews>()
                                             : std::make_shared<DataViews>(*worker->pulse.data);
  uint64_t number = 0;
  for (const auto& [other, view] : *views) number = std::max(number, view.number);
  if (known == nullptr) MakeRoom(*views);
  DataView& view = (*views)[key];
  view.overdue = look.overdue;
  if (!look.overdue) {
    view.number = number + 1;
    view.asked_at = context.now_at;
    view.answered = false;
    draft.after_commit().unstored_messages.push_back(
        {.worker = look.worker,
         .stream = look.stream,
         .assignment = {.seq = 0,
                        .body = CheckDataAssignment{
                            .key = key, .number = view.number, .spec = job->settings->spec}}});
  }
  draft.EditPulse(worker->id).data = std::move(views);
  draft.WakeLoops();
}

}  // namespace

void AskForDataLooks(Draft& draft, const std::vector<DataLook>& looks, const RuleContext& context) {
  for (const DataLook& look : looks) Ask(draft, look, context);
}

void EndJobsWithoutData(Draft& draft, const std::vector<uint64_t>& jobs,
                        const RuleContext& context) {
  // Jobs with the same needs end for the same reason.
  std::string needs;
  UnusableData data;
  for (const uint64_t id : jobs) {
    const Job* job = draft.view().FindJob(id);
    if (job == nullptr) continue;
    std::string these = Demand::KeyOf(job->settings->needs);
    if (these != needs) data = FindUnusableData(draft.view(), job->settings->needs, context.now_at);
    needs = std::move(these);
    const absl::Duration admitted = AdmittedSince(draft.view(), *job, context.now_at, context.now);
    if (!EndsFor(data, *job, admitted)) continue;
    draft.EditJob(id).failure_class = FailureClass::kDataError;
    const absl::Status driven = DriveJob(
        draft, id,
        {.input = JobInput::kNotRetryable,
         .actor = "controller",
         .message = absl::StrCat(FailureClassName(FailureClass::kDataError), ": ", data.why)},
        context);
    MUSTER_CHECK(driven.ok(), "a waiting job could not be ended");
  }
}

void TakeDataVerdicts(Draft& draft, uint64_t worker_id, const std::vector<DataVerdict>& verdicts,
                      const RuleContext& context) {
  std::shared_ptr<DataViews> views;
  for (const DataVerdict& verdict : verdicts) {
    const DataView* known = DataViewOf(*draft.view().workers.Find(worker_id), verdict.key);
    if (known == nullptr || known->answered || known->number != verdict.number) continue;
    if (views == nullptr)
      views = std::make_shared<DataViews>(*draft.view().workers.Find(worker_id)->pulse.data);
    DataView& view = views->at(verdict.key);
    view.answered = true;
    view.overdue = false;
    view.seen_at = context.now_at;
    view.fault = verdict.fault;
    view.error = verdict.error;
    view.fingerprint = verdict.fingerprint;
    view.failures = verdict.fault.empty() ? 0 : view.failures + 1;
  }
  if (views == nullptr) return;
  draft.EditPulse(worker_id).data = std::move(views);
  draft.WakeLoops();
}

}  // namespace muster::controller
