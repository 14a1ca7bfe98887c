#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "controller/api/convert/convert.h"
#include "controller/model/restart_budget.h"

namespace muster::controller {
namespace {

constexpr int kMostWorkers = 256;   // in one summary of a job
constexpr int kMaxShownRoots = 16;  // of one worker

v1::JobState Cast(JobState state) { return static_cast<v1::JobState>(state); }
v1::Reason Cast(Reason reason) { return static_cast<v1::Reason>(reason); }
v1::FailureClass Cast(FailureClass kind) { return static_cast<v1::FailureClass>(kind); }

std::optional<double> FindValue(const std::map<std::string, double>& values, const char* name) {
  const auto found = values.find(name);
  if (found == values.end()) return std::nullopt;
  return found->second;
}

void AddEnded(const Attempt& attempt, absl::Duration& ran, double& slot_seconds) {
  const absl::Duration lasted = std::max(attempt.ended - attempt.started, absl::ZeroDuration());
  size_t slots = 0;
  for (const Rank& rank : attempt.ranks) slots += rank.slots.size();
  ran += lasted;
  slot_seconds += absl::ToDoubleSeconds(lasted) * static_cast<double>(slots);
}

// By which the worker is to know the root; empty: that is not known yet.
std::string IdentityOf(const Worker& worker, const std::string& root) {
  if (worker.pulse.watches == nullptr) return "";
  for (const RootToWatch& watched : *worker.pulse.watches) {
    if (watched.path == root) return watched.identity;
  }
  return "";
}

}  // namespace

int64_t ToMillis(absl::Time time) {
  if (time == absl::InfinitePast() || time == absl::InfiniteFuture()) return 0;
  return absl::ToUnixMillis(time);
}

v1::JobSummary ToProto(const Job& job) {
  v1::JobSummary out;
  out.set_id(job.id);
  out.set_name(job.settings->name);
  out.set_project(job.settings->project);
  out.set_owner(job.owner);
  out.set_state(Cast(job.state));
  out.set_reason(Cast(job.reason));
  out.set_message(job.message);
  out.set_ranks(job.settings->needs.min_ranks);
  out.set_attempt(job.attempt);
  out.set_restarts(job.restarts);
  out.set_submitted_ms(ToMillis(job.submitted));
  out.set_started_ms(ToMillis(job.started));
  out.set_finished_ms(ToMillis(job.finished));
  out.set_failure_class(Cast(job.failure_class));
  if (job.current != nullptr && (job.current->live() || IsTerminal(job.state))) {
    out.set_ranks(static_cast<uint32_t>(job.current->ranks.size()));
    std::set<absl::string_view> known;
    for (const Rank& rank : job.current->ranks) {
      if (out.workers_size() == kMostWorkers) break;
      if (known.insert(rank.worker).second) out.add_workers(rank.worker);
    }
  }
  absl::Duration ran;
  double slot_seconds = 0;
  for (const auto& attempt : job.past) AddEnded(*attempt, ran, slot_seconds);
  if (job.current != nullptr && !job.current->live()) AddEnded(*job.current, ran, slot_seconds);
  out.set_ran_ms(absl::ToInt64Milliseconds(ran));
  out.set_slot_seconds(slot_seconds);
  out.set_array_id(job.array.array_id);
  out.set_array_index(job.array.index);
  out.set_held(job.held);
  out.set_priority(job.settings->priority);
  for (const JobNeeds::Pool& pool : job.settings->needs.pools) out.add_pools(pool.name);
  const JobProgress& progress = job.progress;
  out.set_phase(progress.phase);
  out.set_step(progress.step);
  out.set_total_steps(progress.total_steps);
  out.set_epoch(progress.epoch);
  if (progress.memory_bytes > 0) out.set_memory_bytes(progress.memory_bytes);
  if (progress.memory_peak_bytes > 0) out.set_memory_peak_bytes(progress.memory_peak_bytes);
  if (progress.best_validation_accuracy >= 0) {
    out.set_best_validation_accuracy(progress.best_validation_accuracy);
  }
  const absl::Duration held = job.ledger.times.total();
  if (held > absl::ZeroDuration()) {
    out.set_goodput(absl::FDivDuration(job.ledger.times[TimeLabel::kProductive], held));
  }
  if (const auto value = FindValue(progress.latest, "loss")) out.set_loss(*value);
  if (const auto value = FindValue(progress.latest, "lr")) out.set_lr(*value);
  if (const auto value = FindValue(progress.latest, "samples_per_second")) {
    out.set_samples_per_second(*value);
  }
  if (const auto value = FindValue(progress.latest, "validation_accuracy")) {
    out.set_validation_accuracy(*value);
  }
  if (const auto value = FindValue(progress.latest, "validation_loss")) {
    out.set_validation_loss(*value);
  }
  if (const auto value = FindValue(job.results, "validation_accuracy")) {
    out.set_best_validation_accuracy(*value);
  }
  if (const auto value = FindValue(job.results, "test_accuracy")) out.set_test_accuracy(*value);
  return out;
}

v1::Attempt ToProto(const Attempt& attempt) {
  v1::Attempt out;
  out.set_number(attempt.number);
  out.set_started_ms(ToMillis(attempt.started));
  out.set_ended_ms(ToMillis(attempt.ended));
  out.set_failure_class(Cast(attempt.failure_class));
  out.set_cause(attempt.cause);
  out.set_first_step(attempt.first_step);
  out.set_last_step(attempt.last_step);
  for (const Rank& rank : attempt.ranks) {
    v1::Attempt::Rank* row = out.add_ranks();
    row->set_rank(rank.rank);
    row->set_worker(rank.worker);
    for (uint32_t slot : rank.slots) row->add_slots(slot);
    const absl::string_view state = RankStateName(rank.state);
    row->set_state(state.data(), state.size());
    row->set_exit_code(rank.exit_code);
    row->set_signal(rank.signal);
    row->set_pid(rank.pid);
  }
  return out;
}

std::vector<v1::Attempt> AttemptsOf(const Job& job) {
  std::vector<v1::Attempt> attempts;
  for (const auto& attempt : job.past) attempts.push_back(ToProto(*attempt));
  if (job.current != nullptr) attempts.push_back(ToProto(*job.current));
  for (size_t i = 0; i + 1 < attempts.size(); ++i) {
    const int64_t lost = attempts[i].last_step() - attempts[i + 1].first_step();
    attempts[i].set_steps_lost(lost > 0 ? lost : 0);
  }
  if (job.has_live_attempt()) {
    v1::Attempt& live = attempts.back();
    live.set_last_step(std::max<int64_t>(live.last_step(), job.ledger.step));
  }
  return attempts;
}

std::vector<v1::RestartBudget> BudgetsOf(const Job& job) {
  std::vector<v1::RestartBudget> budgets;
  for (const RestartBudget& budget : RestartBudgetsOf(job)) {
    v1::RestartBudget& row = budgets.emplace_back();
    row.set_failure_class(Cast(budget.kind));
    row.set_budget(budget.limit);
    row.set_left(budget.left());
    row.set_shared(budget.shared);
  }
  return budgets;
}

v1::JobEvent ToProto(const JobEvent& event) {
  v1::JobEvent out;
  out.set_sequence(event.sequence);
  out.set_job_id(event.job_id);
  out.set_time_ms(ToMillis(event.time));
  out.set_from(Cast(event.from));
  out.set_to(Cast(event.to));
  out.set_reason(Cast(event.reason));
  out.set_actor(event.actor);
  out.set_message(event.message);
  out.set_attempt(event.attempt);
  return out;
}

v1::CheckpointInfo ToProto(const Checkpoint& checkpoint) {
  v1::CheckpointInfo out;
  out.set_id(checkpoint.id);
  out.set_job_id(checkpoint.job_id);
  out.set_step(checkpoint.step);
  out.set_attempt(checkpoint.attempt);
  out.set_state(static_cast<v1::CheckpointState>(checkpoint.state));
  out.set_path(checkpoint.path);
  out.set_bytes(checkpoint.bytes);
  out.set_manifest_sha256(checkpoint.manifest_sha256);
  out.set_best(checkpoint.best);
  out.set_epoch(checkpoint.epoch);
  if (const auto value = FindValue(checkpoint.metrics, "validation_accuracy")) {
    out.set_validation_accuracy(*value);
  }
  if (const auto value = FindValue(checkpoint.metrics, "validation_loss")) {
    out.set_validation_loss(*value);
  }
  out.set_created_ms(ToMillis(checkpoint.created));
  out.set_verified_ms(ToMillis(checkpoint.verified));
  out.set_message(checkpoint.message);
  out.set_pinned_by(checkpoint.pinned_by);
  out.set_removed_by(checkpoint.removed_by);
  return out;
}

v1::ResumeSource ResumeSourceOf(const Snapshot& snapshot,
                                const std::vector<uint64_t>& resume_from) {
  v1::ResumeSource out;
  out.set_job_id(snapshot.FindCheckpoint(resume_from.front())->job_id);
  out.set_job_name(snapshot.FindJob(out.job_id())->settings->name);
  for (uint64_t id : resume_from) out.add_steps(snapshot.FindCheckpoint(id)->step);
  return out;
}

v1::WorkerInfo ToProto(const Worker& worker) {
  v1::WorkerInfo out;
  out.set_name(worker.name);
  const absl::string_view state = WorkerStateName(worker);
  out.set_state(state.data(), state.size());
  out.set_pool(worker.facts.pool);
  for (const Slot& slot : worker.facts.slots) {
    v1::Slot* row = out.add_slots();
    row->set_index(slot.index);
    row->set_kind(static_cast<v1::SlotKind>(slot.kind));
    row->set_device(slot.device);
    row->set_uuid(slot.uuid);
    row->set_memory_bytes(slot.memory_bytes);
  }
  out.set_slots_used(static_cast<uint32_t>(worker.pulse.holders.size()));
  std::set<uint64_t> jobs;
  for (const auto& [slot, holder] : worker.pulse.holders) {
    if (jobs.insert(holder.job_id).second) out.add_job_ids(holder.job_id);
  }
  out.mutable_labels()->insert(worker.facts.labels.begin(), worker.facts.labels.end());
  out.set_advertise_address(worker.facts.advertise_address);
  out.set_metrics_address(worker.facts.metrics_address);
  out.set_version(worker.facts.version);
  out.set_last_heartbeat_ms(ToMillis(worker.pulse.last_heartbeat));
  out.set_cpus(worker.facts.cpus);
  out.set_memory_bytes(worker.facts.memory_bytes);
  out.set_cordoned(worker.cordoned);
  out.set_cordon_reason(worker.cordon_reason);
  for (const WorkerFailure& failure : worker.failures) {
    v1::WorkerInfo::WorkerFailure* row = out.add_failures();
    row->set_time_ms(ToMillis(failure.time));
    row->set_job_id(failure.job_id);
    row->set_attempt(failure.attempt);
    row->set_failure_class(static_cast<v1::FailureClass>(failure.failure_class));
    row->set_cause(failure.cause);
  }
  out.set_quarantined_until_ms(ToMillis(worker.quarantined_until));
  out.set_quarantine_reason(worker.quarantine_reason);
  out.set_allows_commands(worker.facts.allows_commands);
  for (const std::string& runtime : worker.facts.container_runtimes) {
    out.add_container_runtimes(runtime);
  }
  if (worker.pulse.roots != nullptr) {
    for (const auto& [path, view] : *worker.pulse.roots) {
      if (view.message.empty() || out.unseen_roots_size() == kMaxShownRoots) continue;
      v1::WorkerInfo::UnseenRoot* row = out.add_unseen_roots();
      row->set_path(path);
      row->set_message(view.message);
      row->set_identity(IdentityOf(worker, path));
    }
  }
  if (worker.pulse.use != nullptr) {
    v1::WorkerUse* use = out.mutable_use();
    use->set_cpus(worker.pulse.use->cpus);
    use->set_memory_bytes(worker.pulse.use->memory_bytes);
    for (const WorkerUse::Gpu& gpu : worker.pulse.use->gpus) {
      v1::WorkerUse::Gpu* row = use->add_gpus();
      row->set_slot(gpu.slot);
      row->set_utilization(gpu.utilization);
      row->set_memory_bytes(gpu.memory_bytes);
    }
  }
  return out;
}

}  // namespace muster::controller
