// The durable part of a version, as text by row: what is shown but not stored is left out.
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/sim/invariants.h"

namespace muster::sim {
namespace {

std::string Hex(const std::string& bytes) { return absl::BytesToHexString(bytes); }

std::string RowOf(const mc::Rank& rank) {
  return absl::StrCat(rank.rank, " ", rank.worker, " ", Hex(rank.incarnation), " slots ",
                      absl::StrJoin(rank.slots, ","), " ", mc::RankStateName(rank.state), " ok ",
                      rank.succeeded, " holds ", rank.holds_slots, " exit ", rank.exit_code, "/",
                      rank.signal, " step ", rank.last_step);
}

std::string RowOf(const mc::Attempt& attempt) {
  std::string row = absl::StrCat(
      "gen ", attempt.generation, " term ", attempt.term, " live ", attempt.live(), " class ",
      static_cast<int>(attempt.failure_class), " reason ", static_cast<int>(attempt.reason),
      " cause ", attempt.cause, " of rank ", attempt.failed_rank, " missing ",
      static_cast<int>(attempt.missing), " running ", attempt.reached_running, " save ",
      attempt.save_requested, " lost ", attempt.lost_slot_seconds, " of ",
      attempt.stake_slot_seconds, " steps ", attempt.first_step, "..", attempt.last_step, " for ",
      attempt.preempted_by, " resume ", absl::StrJoin(attempt.resume, ","));
  for (const mc::Rank& rank : attempt.ranks) absl::StrAppend(&row, "; ", RowOf(rank));
  return row;
}

std::string RowOf(const mc::Job& job) {
  std::string row = absl::StrCat(
      job.owner, " held ", job.held, job.suspending, " requeue ", job.requeue_id, "/",
      job.requeued_after, " array ", job.array.array_id, "/", job.array.index, " priority ",
      job.settings->priority, " begin ", absl::ToUnixMillis(job.settings->scheduling.begin),
      " deadline ", absl::ToUnixMillis(job.settings->scheduling.deadline), " at a time ",
      job.array.at_a_time, " in ", job.checkpoint_folder(), " ", job.idempotency_key, " ",
      job.settings->name, " ", job.settings->spec, " ", mc::JobStateName(job.state), " reason ",
      static_cast<int>(job.reason), " attempt ", job.attempt, " restarts ", job.restarts, "/",
      job.restarts_in_row, " class ", static_cast<int>(job.failure_class), " checkpoints ",
      absl::StrJoin(job.checkpoints, ","), " events ", job.events.size());
  for (const auto& [kind, count] : job.charged) {
    absl::StrAppend(&row, " charged ", static_cast<int>(kind), ":", count);
  }
  return row;
}

std::string RowOf(const mc::Worker& worker) {
  std::string row = absl::StrCat(
      worker.name, " ", Hex(worker.incarnation), " of ", Hex(worker.identity), " past ",
      absl::StrJoin(worker.past_incarnations, ",",
                    [](std::string* out, const std::string& past) { *out += Hex(past); }),
      " seq ", worker.event_seq_known ? absl::StrCat(worker.event_seq) : "?", " draining ",
      worker.draining, " lost ", worker.lost, " slots ", worker.facts.slots.size(), " pool ",
      worker.facts.pool, " cordoned ", worker.cordoned, worker.cordon_reason, " quarantines ",
      worker.quarantines, " until ", absl::ToUnixMillis(worker.quarantined_until),
      " quarantine_ended ", absl::ToUnixMillis(worker.quarantine_ended), " ",
      worker.quarantine_reason);
  for (const mc::WorkerFailure& failure : worker.failures) {
    absl::StrAppend(&row, "; failure ", absl::ToUnixMillis(failure.time), " ", failure.job_id, ".",
                    failure.attempt, " ", static_cast<int>(failure.failure_class), failure.cause);
  }
  for (const auto& [slot, holder] : worker.pulse.holders) {
    absl::StrAppend(&row, "; ", slot, " -> ", holder.job_id, ".", holder.attempt, ".", holder.rank);
  }
  return row;
}

std::string RowOf(const mc::Checkpoint& row) {
  const std::string doubt = row.doubt.has_value()
                                ? absl::StrCat(" doubted by ", row.doubt->worker, " missing ",
                                               row.doubt->missing, ": ", row.doubt->message)
                                : "";
  return absl::StrCat("job ", row.job_id, " step ", row.step, " a", row.attempt, " ",
                      mc::CheckpointStateName(row.state), " ", row.path, " ", row.manifest_sha256,
                      " best ", row.best, " rereads ", row.rereads, " ", row.message, doubt,
                      " pinned by ", row.pinned_by, " removed by ", row.removed_by);
}

std::string RowOf(const mc::Quota& quota) {
  return absl::StrCat(quota.slots.has_value() ? absl::StrCat(*quota.slots) : "-", "/",
                      quota.queued.has_value() ? absl::StrCat(*quota.queued) : "-");
}

std::string RowOf(const mc::Project& project) {
  return absl::StrCat("weight ", project.weight, " quota ", RowOf(project.quota), " each ",
                      RowOf(project.each_user), " used ", project.used.slot_seconds);
}

std::string RowOf(const mc::OutboxRow& row) {
  return absl::StrCat(row.worker, " ", Hex(row.incarnation), " kind ", static_cast<int>(row.kind),
                      " ", row.fence.job_id, ".", row.fence.attempt, ".", row.fence.generation,
                      " term ", row.fence.term, " mode ", static_cast<int>(row.mode), " grace ",
                      absl::FormatDuration(row.grace), " ", row.reason, " checkpoint ",
                      row.checkpoint_id);
}

}  // namespace

std::string DurableRow(const mc::Worker& worker) { return RowOf(worker); }
std::string DurableRow(const mc::Checkpoint& checkpoint) { return RowOf(checkpoint); }

std::map<std::string, std::string> DurableRows(const mc::Job& job) {
  std::map<std::string, std::string> rows;
  rows[absl::StrCat("job ", job.id)] = RowOf(job);
  if (job.current != nullptr) {
    rows[absl::StrCat("attempt ", job.id, ".", job.current->number)] = RowOf(*job.current);
  }
  for (const auto& past : job.past) {
    rows[absl::StrCat("attempt ", job.id, ".", past->number)] = RowOf(*past);
  }
  return rows;
}

std::map<std::string, std::string> DurableRows(const mc::Snapshot& snapshot) {
  std::map<std::string, std::string> rows = {{"controller", Hex(snapshot.controller_id)}};
  snapshot.jobs.ForEach([&rows](const mc::Job& job) { rows.merge(DurableRows(job)); });
  snapshot.workers.ForEach([&rows](const mc::Worker& worker) {
    rows[absl::StrCat("worker ", worker.id)] = RowOf(worker);
  });
  snapshot.checkpoints.ForEach([&rows](const mc::Checkpoint& checkpoint) {
    rows[absl::StrCat("checkpoint ", checkpoint.id)] = RowOf(checkpoint);
  });
  for (const auto& [name, project] : *snapshot.projects) rows["project " + name] = RowOf(*project);
  for (const auto& [path, use] : *snapshot.roots_in_use) {
    const mc::RootIdentity* root = snapshot.roots.Find(path);
    if (root != nullptr) rows["root " + path] = root->identity + " by " + root->found_by;
  }
  snapshot.outbox.ForEach(
      [&rows](const mc::OutboxRow& row) { rows[absl::StrCat("outbox ", row.seq)] = RowOf(row); });
  return rows;
}

}  // namespace muster::sim
