#include "controller/api/convert/explain_answer.h"

#include "controller/api/convert/convert.h"

namespace muster::controller {
namespace {

void Fill(const Blocker& blocker, v1::Blocker& out) {
  out.set_kind(static_cast<v1::Blocker::Kind>(blocker.kind));
  out.set_is_hint(blocker.is_hint);
  out.set_pool(blocker.pool);
  out.set_message(blocker.message);
  out.set_needed(blocker.needed);
  out.set_available(blocker.available);
  out.set_job_id(blocker.job_id);
}

void FillAhead(const Snapshot& snapshot, uint64_t id, v1::Outlook::Ahead& out) {
  out.set_id(id);
  const Job* job = snapshot.FindJob(id);
  if (job == nullptr) return;
  out.set_name(job->settings->name);
  out.set_project(job->settings->project);
  out.set_state(static_cast<v1::JobState>(job->state));
  out.set_priority(job->settings->priority);
  out.set_slots(job->settings->needs.min_ranks * job->settings->needs.slots_per_rank);
  out.set_array_id(job->array.array_id);
  out.set_array_index(job->array.index);
}

void FillPlaces(const Explanation& explanation, v1::Outlook& out) {
  v1::Outlook::Place* place = nullptr;
  for (const RankPlacement& rank : explanation.ranks) {
    if (place == nullptr || place->worker() != rank.worker) {
      place = out.add_places();
      place->set_worker(rank.worker);
    }
    place->set_ranks(place->ranks() + 1);
    place->mutable_slots()->Add(rank.slots.begin(), rank.slots.end());
  }
  out.set_ranks(static_cast<uint32_t>(explanation.ranks.size()));
  out.set_slots(explanation.slots);
}

}  // namespace

v1::Outlook ToProto(const Snapshot& snapshot, const Explanation& explanation) {
  v1::Outlook out;
  out.set_reason(explanation.reason);
  for (const Blocker& blocker : explanation.blockers) Fill(blocker, *out.add_blockers());
  for (uint64_t id : explanation.ahead) FillAhead(snapshot, id, *out.add_ahead());
  out.set_ahead_count(explanation.ahead_count);
  if (explanation.start != absl::InfiniteFuture()) out.set_start_ms(ToMillis(explanation.start));
  out.set_why_unknown(explanation.why_unknown);
  for (const ExpectedEndOf& end : explanation.rests_on) {
    v1::Outlook::End* row = out.add_rests_on();
    row->set_job_id(end.job_id);
    if (const Job* job = snapshot.FindJob(end.job_id)) row->set_name(job->settings->name);
    row->set_source(static_cast<v1::RunTimeSource>(end.source));
    row->set_end_ms(ToMillis(end.end));
  }
  out.set_rests_on_count(explanation.rests_on_count);
  FillPlaces(explanation, out);
  if (explanation.run_time != absl::InfiniteDuration()) {
    out.set_run_seconds(absl::ToDoubleSeconds(explanation.run_time));
  }
  out.set_run_time_source(static_cast<v1::RunTimeSource>(explanation.run_time_source));
  if (explanation.end != absl::InfiniteFuture()) out.set_end_ms(ToMillis(explanation.end));
  if (explanation.slot_hours >= 0) out.set_slot_hours(explanation.slot_hours);
  return out;
}

}  // namespace muster::controller
