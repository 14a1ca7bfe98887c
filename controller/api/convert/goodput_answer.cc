#include "controller/api/convert/goodput_answer.h"

#include <utility>

#include "common/base/status_macros.h"
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

// Adds jobs up.
class Goodput {
 public:
  void Add(const Job& job, absl::Time now) {
    Add({.id = job.id,
         .name = job.settings->name,
         .project = job.settings->project,
         .state = job.state,
         .ledger = LedgerAt(job, now)});
  }
  void Add(const ArchivedLedger& job) {
    times_ += job.ledger.times;
    queued_ += job.ledger.queued;
    response_.set_job_count(response_.job_count() + 1);
    if (response_.jobs_size() == kMaxLedgerRows) return;
    v1::JobLedger* row = response_.add_jobs();
    row->set_id(job.id);
    row->set_name(job.name);
    row->set_project(job.project);
    row->set_state(static_cast<v1::JobState>(job.state));
    *row->mutable_ledger() = ToProto(job.ledger.times, job.ledger.queued);
  }
  v1::GetGoodputResponse Answer() && {
    *response_.mutable_total() = ToProto(times_, queued_);
    return std::move(response_);
  }

 private:
  v1::GetGoodputResponse response_;
  LabelledTime times_;
  absl::Duration queued_;
};

}  // namespace

v1::GetGoodputResponse AnswerGoodput(const Snapshot& snapshot, absl::Duration now_at,
                                     const Job& job) {
  Goodput goodput;
  goodput.Add(job, snapshot.LedgerTime(now_at));
  return std::move(goodput).Answer();
}

absl::StatusOr<v1::GetGoodputResponse> AnswerGoodput(const Snapshot& snapshot, History& history,
                                                     absl::Duration now_at,
                                                     const v1::GetGoodputRequest& request,
                                                     const MayRead& may_read) {
  Goodput goodput;
  const auto readable = [&](const std::string& project) {
    return may_read == nullptr || may_read(project);
  };
  const CowTable<Job>& jobs = snapshot.jobs;
  for (uint64_t id = jobs.last_id() + 1; (id = jobs.PreviousId(id)) != 0;) {
    const Job& job = *jobs.Find(id);
    if (IsWanted(job, request) && readable(job.settings->project))
      goodput.Add(job, snapshot.LedgerTime(now_at));
  }
  ArchivedJobsQuery query{.project = request.project()};
  if (request.since_ms() != 0) query.finished_from = absl::FromUnixMillis(request.since_ms());
  do {
    MUSTER_ASSIGN_OR_RETURN(const ArchivedPage<ArchivedLedger> page, history.Ledgers(query));
    for (const ArchivedLedger& job : page.rows) {
      if (jobs.Find(job.id) == nullptr && readable(job.project)) goodput.Add(job);
    }
    query.below = page.looked_down_to;
  } while (query.below != 0);
  return std::move(goodput).Answer();
}

}  // namespace muster::controller
