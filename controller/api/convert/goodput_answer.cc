#include "controller/api/convert/goodput_answer.h"

#include "controller/model/ledger_rules.h"

namespace muster::controller {
namespace {

v1::SlotTime ToProto(absl::Duration slot_time) {
  v1::SlotTime out;
  absl::Duration rest;
  out.set_seconds(static_cast<uint64_t>(absl::IDivDuration(slot_time, absl::Seconds(1), &rest)));
  out.set_nanos(static_cast<uint32_t>(absl::ToInt64Nanoseconds(rest)));
  return out;
}

v1::Ledger ToProto(const LabelledTime& times, absl::Duration queued) {
  v1::Ledger out;
  const absl::Duration held = times.total();
  *out.mutable_held() = ToProto(held);
  *out.mutable_start() = ToProto(times[TimeLabel::kStart]);
  *out.mutable_rendezvous() = ToProto(times[TimeLabel::kRendezvous]);
  *out.mutable_load() = ToProto(times[TimeLabel::kLoad]);
  *out.mutable_productive() = ToProto(times[TimeLabel::kProductive]);
  *out.mutable_save_stall() = ToProto(times[TimeLabel::kSaveStall]);
  *out.mutable_recompute() = ToProto(times[TimeLabel::kRecompute]);
  *out.mutable_hang() = ToProto(times[TimeLabel::kHang]);
  *out.mutable_idle() = ToProto(times[TimeLabel::kIdle]);
  *out.mutable_drain() = ToProto(times[TimeLabel::kDrain]);
  if (held > absl::ZeroDuration()) {
    out.set_goodput(absl::FDivDuration(times[TimeLabel::kProductive], held));
  }
  out.set_queue_seconds(absl::ToDoubleSeconds(queued));
  return out;
}

bool IsWanted(const Job& job, const v1::GetGoodputRequest& request) {
  if (!request.project().empty() && job.settings->project != request.project()) return false;
  return !IsTerminal(job.state) || job.finished >= absl::FromUnixMillis(request.since_ms());
}

}  // namespace

v1::GetGoodputResponse AnswerGoodput(const Snapshot& snapshot, absl::Duration now_at,
                                     const v1::GetGoodputRequest& request, const Job* job) {
  const absl::Time now = snapshot.ledger_origin + now_at;
  v1::GetGoodputResponse response;
  LabelledTime times;
  absl::Duration queued;
  const auto add = [&](const Job& one) {
    const JobLedger ledger = LedgerAt(one, now);
    times += ledger.times;
    queued += ledger.queued;
    response.set_job_count(response.job_count() + 1);
    if (response.jobs_size() == kMaxLedgerRows) return;
    v1::JobLedger* row = response.add_jobs();
    row->set_id(one.id);
    row->set_name(one.settings->name);
    row->set_project(one.settings->project);
    row->set_state(static_cast<v1::JobState>(one.state));
    *row->mutable_ledger() = ToProto(ledger.times, ledger.queued);
  };
  if (job != nullptr) {
    add(*job);
  } else {
    const CowTable<Job>& jobs = snapshot.jobs;
    for (uint64_t id = jobs.last_id() + 1; (id = jobs.PreviousId(id)) != 0;) {
      const Job& one = *jobs.Find(id);
      if (IsWanted(one, request)) add(one);
    }
  }
  *response.mutable_total() = ToProto(times, queued);
  return response;
}

}  // namespace muster::controller
