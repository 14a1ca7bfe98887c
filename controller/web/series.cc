#include "controller/web/series.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/version.h"
#include "controller/model/ledger_rules.h"

namespace muster::controller {
namespace {

std::string StateLabel(JobState state) {
  const absl::string_view name = JobStateName(state);
  return absl::AsciiStrToLower(absl::string_view(name.data(), name.size()));
}

// The series of one scrape. Of those with the same labels the last one stands.
class ScrapedSeries {
 public:
  void Set(const MetricDef& metric, const std::vector<std::string>& label_values, double value) {
    auto& [family, index] = by_metric_[&metric];
    auto labels = LabelsOf(metric, label_values);
    std::string key;
    for (const auto& label : labels) absl::StrAppend(&key, label.value, "\n");
    auto known = index.find(key);
    if (known == index.end()) {
      if (index.size() == kMaxControllerSeries) {
        ++refused_;
        return;
      }
      known = index.emplace(std::move(key), family.metric.size()).first;
      family.metric.emplace_back().label = std::move(labels);
    }
    prometheus::ClientMetric& series = family.metric[known->second];
    (metric.type == MetricType::kCounter ? series.counter.value : series.gauge.value) = value;
  }
  void Set(const MetricDef& metric, double value) { Set(metric, {}, value); }

  size_t refused() const { return refused_; }
  std::vector<prometheus::MetricFamily> TakeFamilies() {
    std::vector<prometheus::MetricFamily> families;
    for (const MetricDef* metric : ControllerMetrics()) {
      const auto found = by_metric_.find(metric);
      if (found == by_metric_.end()) continue;
      prometheus::MetricFamily& family = families.emplace_back(std::move(found->second.family));
      family.name = metric->name;
      family.help = metric->help;
      family.type = metric->type == MetricType::kCounter ? prometheus::MetricType::Counter
                                                         : prometheus::MetricType::Gauge;
    }
    return families;
  }

 private:
  struct Family {
    prometheus::MetricFamily family;
    absl::flat_hash_map<std::string, size_t> index;  // into its series, by their label values
  };
  std::map<const MetricDef*, Family> by_metric_;
  size_t refused_ = 0;
};

void SetValue(const Job& job, absl::string_view name, double value, ScrapedSeries& series) {
  const ReportedValue* reported = FindReportedValue(name);
  if (reported == nullptr || reported->of_job == nullptr) return;
  std::vector<std::string> labels{absl::StrCat(job.id), job.settings->name};
  if (reported->last_label != nullptr) labels.push_back(reported->last_label);
  series.Set(*reported->of_job, labels, value);
}

// What jobs report under names of their own, within the bounds of all of them together.
class OwnMetrics {
 public:
  explicit OwnMetrics(ScrapedSeries& series) : series_(series) {}
  ~OwnMetrics() { series_.Set(metric::kOwnMetricsLeftOut, static_cast<double>(left_out_)); }

  void Fill(const Job& job) {
    size_t shown = 0;
    for (const auto& [name, value] : job.progress.latest) {
      if (FindReportedValue(name) != nullptr) continue;
      if (shown == kMaxOwnMetrics || all_ == kMaxOwnMetricsOfAll ||
          name.size() > kMaxOwnMetricBytes) {
        ++left_out_;
        continue;
      }
      ++shown;
      ++all_;
      series_.Set(metric::kJobOwnMetric, {absl::StrCat(job.id), job.settings->name, name}, value);
    }
  }

 private:
  ScrapedSeries& series_;
  size_t all_ = 0;
  uint64_t left_out_ = 0;
};

// A counter: past attempts stay with their job.
void FillFailures(const Job& job, ScrapedSeries& series) {
  std::map<FailureClass, double> failures;
  for (const auto& attempt : job.past) ++failures[attempt->failure_class];
  if (job.current != nullptr && !job.current->live()) ++failures[job.current->failure_class];
  for (const auto& [kind, count] : failures) {
    if (kind == FailureClass::kNone) continue;
    series.Set(
        metric::kJobFailuresTotal,
        {absl::StrCat(job.id), job.settings->name, absl::AsciiStrToLower(FailureClassName(kind))},
        count);
  }
}

void FillJob(const Snapshot& snapshot, const SeriesInputs& inputs, const Job& job,
             ScrapedSeries& series) {
  const std::vector<std::string> labels{absl::StrCat(job.id), job.settings->name};
  series.Set(metric::kJobState, {labels[0], labels[1], StateLabel(job.state)}, 1);
  series.Set(metric::kJobRestartsTotal, labels, job.restarts);
  double committed = 0;
  for (const uint64_t id : job.checkpoints) {
    const Checkpoint* checkpoint = snapshot.FindCheckpoint(id);
    // A save that failed, or that never ended, has no place.
    if (checkpoint != nullptr && !checkpoint->path.empty()) ++committed;
  }
  series.Set(metric::kJobCheckpointsTotal, labels, committed);
  if (job.attempt == 0) return;  // it never ran: there is nothing to say of its training
  FillFailures(job, series);
  if (inputs.checkpoint_rules != nullptr && job.state == JobState::kRunning) {
    const auto age =
        CheckpointAgeRatio(snapshot, job, inputs.checkpoint_rules->Of(job), inputs.now);
    if (age.has_value()) series.Set(metric::kJobCheckpointAgeRatio, labels, *age);
  }
  series.Set(metric::kJobRanks, labels,
             job.has_live_attempt() ? static_cast<double>(job.current->ranks.size()) : 0);
  const JobProgress& progress = job.progress;
  for (const auto& [name, value] : progress.latest) SetValue(job, name, value, series);
  for (const auto& [name, value] : job.results) SetValue(job, name, value, series);
  series.Set(metric::kJobStep, labels, static_cast<double>(progress.step));
  series.Set(metric::kJobEpoch, labels, progress.epoch);
  if (progress.total_steps > 0) {
    series.Set(metric::kJobPlannedSteps, labels, static_cast<double>(progress.total_steps));
  }
  // Of the largest rank, not of rank 0 as in `latest`.
  if (progress.memory_bytes > 0) series.Set(metric::kJobMemoryBytes, labels, progress.memory_bytes);
  if (progress.memory_peak_bytes > 0) {
    series.Set(metric::kJobMemoryPeakBytes, labels, progress.memory_peak_bytes);
  }
}

std::string LabelName(int label) {
  return std::string(TimeLabelName(static_cast<TimeLabel>(label)));
}

// Only what is durable and will keep its label: a counter must never go back.
void FillLedger(const Job& job, ScrapedSeries& series) {
  const std::vector<std::string> labels{absl::StrCat(job.id), job.settings->name};
  series.Set(metric::kJobQueueSecondsTotal, labels,
             absl::ToDoubleSeconds(job.ledger.settled_queued));
  if (job.attempt == 0) return;
  for (int i = 0; i < kTimeLabelCount; ++i) {
    series.Set(metric::kJobSlotSecondsTotal, {labels[0], labels[1], LabelName(i)},
               absl::ToDoubleSeconds(job.ledger.settled.of[i]));
  }
}

void FillProjects(const Snapshot& snapshot, ScrapedSeries& series) {
  struct Sum {
    LabelledTime held;
    absl::Duration queued;
  };
  std::map<std::string, Sum> projects;
  snapshot.jobs.ForEach([&projects](const Job& job) {
    Sum& sum = projects[job.settings->project];
    sum.held += job.ledger.settled;
    sum.queued += job.ledger.settled_queued;
  });
  // A counter must never go back.
  for (const auto& [project, time] : *snapshot.archived_time) {
    projects[project].held += time.held;
    projects[project].queued += time.queued;
  }
  for (const auto& [project, sum] : projects) {
    series.Set(metric::kProjectQueueSecondsTotal, {project}, absl::ToDoubleSeconds(sum.queued));
    for (int i = 0; i < kTimeLabelCount; ++i) {
      series.Set(metric::kProjectSlotSecondsTotal, {project, LabelName(i)},
                 absl::ToDoubleSeconds(sum.held.of[i]));
    }
  }
}

// The jobs that have series of their own; those of a kind, newest last.
struct ShownJobs {
  std::vector<const Job*> running, waiting, ended;

  void Add(const Job& job) {
    const bool waits = job.state == JobState::kPending || job.state == JobState::kSuspended;
    (IsTerminal(job.state) ? ended : waits ? waiting : running).push_back(&job);
  }
};

void FillOwnSeries(const Snapshot& snapshot, const SeriesInputs& inputs, const ShownJobs& jobs,
                   ScrapedSeries& series) {
  OwnMetrics own(series);
  const auto fill = [&](const std::vector<const Job*>& of_kind, const char* kind, size_t most) {
    const size_t shown = std::min(of_kind.size(), most);
    for (auto job = of_kind.rbegin(); job != of_kind.rbegin() + static_cast<ptrdiff_t>(shown);
         ++job) {
      FillJob(snapshot, inputs, **job, series);
      FillLedger(**job, series);
      own.Fill(**job);
    }
    series.Set(metric::kJobsWithoutSeries, {kind}, static_cast<double>(of_kind.size() - shown));
  };
  fill(jobs.running, "running", kMaxRunningJobsShown);
  fill(jobs.ended, "ended", kMaxEndedJobsShown);
  fill(jobs.waiting, "waiting", kMaxWaitingJobsShown);
}

// Whether free slots could hold a job, by their number alone: other needs, quotas and what is
// reserved for others are the scheduler's.
class FreeSlots {
 public:
  explicit FreeSlots(const Snapshot& snapshot) : snapshot_(snapshot) {}

  bool CouldHold(const JobNeeds& needs, absl::Duration waited) {
    return std::any_of(needs.pools.begin(), needs.pools.end(), [&](const JobNeeds::Pool& pool) {
      return pool.after <= waited && RanksIn(pool.name, needs) >= needs.min_ranks;
    });
  }

 private:
  uint64_t RanksIn(const std::string& pool, const JobNeeds& needs) {
    const uint32_t per_rank = std::max<uint32_t>(1, needs.slots_per_rank);
    const auto [ranks, is_new] = ranks_.try_emplace({pool, needs.slot_kind, per_rank});
    if (!is_new) return ranks->second;
    snapshot_.workers.ForEach([&](const Worker& worker) {
      if (worker.facts.pool != pool || WorkerStateName(worker) != "ready") return;
      uint64_t free = 0;
      for (const Slot& slot : worker.facts.slots) {
        free += slot.kind == needs.slot_kind && worker.pulse.holders.count(slot.index) == 0;
      }
      ranks->second += free / per_rank;
    });
    return ranks->second;
  }

  const Snapshot& snapshot_;
  std::map<std::tuple<std::string, SlotKind, uint32_t>, uint64_t> ranks_;
};

// Whether it waits for slots, and not for a person, a time or another job.
bool WaitsForSlots(const Snapshot& snapshot, const Job& job, absl::Time now) {
  const SchedulingSettings& scheduling = job.settings->scheduling;
  return !job.held && scheduling.begin <= now &&
         std::all_of(scheduling.after.begin(), scheduling.after.end(),
                     [&](const SchedulingSettings::Dependency& dependency) {
                       const Job* other = snapshot.FindJob(dependency.job_id);
                       return other == nullptr || IsTerminal(other->state);
                     });
}

void FillJobs(const Snapshot& snapshot, const SeriesInputs& inputs, ScrapedSeries& series) {
  std::map<std::string, double> by_state;
  for (int state = 1; state <= kJobStateCount; ++state) {
    by_state[StateLabel(static_cast<JobState>(state))] = 0;
  }
  double queued = 0;
  double queued_ranks = 0;
  absl::Duration oldest_wait, oldest_fitting_wait;
  FreeSlots free_slots(snapshot);
  ShownJobs shown;
  snapshot.jobs.ForEach([&](const Job& job) {
    ++by_state[StateLabel(job.state)];
    if (job.state == JobState::kPending) {
      ++queued;
      queued_ranks += job.settings->needs.min_ranks;
      const absl::Time since = job.events.empty() ? job.submitted : HappenedAt(*job.events.back());
      const absl::Duration waited = inputs.now - since;
      oldest_wait = std::max(oldest_wait, waited);
      if (waited > oldest_fitting_wait && WaitsForSlots(snapshot, job, inputs.now) &&
          free_slots.CouldHold(job.settings->needs, waited)) {
        oldest_fitting_wait = waited;
      }
    }
    if (!IsTerminal(job.state) || inputs.now - FinishedAt(job) < inputs.series_grace) {
      shown.Add(job);
    }
  });
  FillOwnSeries(snapshot, inputs, shown, series);
  for (const auto& [state, count] : by_state) series.Set(metric::kJobs, {state}, count);
  series.Set(metric::kQueueJobs, queued);
  series.Set(metric::kQueueRanks, queued_ranks);
  series.Set(metric::kQueueOldestSeconds, absl::ToDoubleSeconds(oldest_wait));
  series.Set(metric::kQueueOldestFittingSeconds, absl::ToDoubleSeconds(oldest_fitting_wait));
  for (const JobState state : {JobState::kSucceeded, JobState::kFailed, JobState::kCancelled}) {
    const auto finished = snapshot.counters.jobs_finished.find(state);
    const uint64_t count = finished == snapshot.counters.jobs_finished.end() ? 0 : finished->second;
    series.Set(metric::kJobsFinishedTotal, {StateLabel(state)}, static_cast<double>(count));
  }
}

void FillWorkers(const Snapshot& snapshot, ScrapedSeries& series) {
  // All stand, so that a state that everybody has left shows zero.
  std::map<std::string, double> by_state{{"ready", 0},   {"suspect", 0},  {"quarantined", 0},
                                         {"drained", 0}, {"draining", 0}, {"lost", 0}};
  std::map<std::vector<std::string>, double> slots;
  snapshot.workers.ForEach([&](const Worker& worker) {
    const absl::string_view state = WorkerStateName(worker);
    ++by_state[std::string(state)];
    for (const Slot& slot : worker.facts.slots) {
      const std::string kind = absl::AsciiStrToLower(SlotKindName(slot.kind));
      // All three stand, so that a use that falls to zero shows zero.
      for (const char* any : {"free", "used", "unavailable"}) slots[{worker.facts.pool, kind, any}];
      const char* use = worker.pulse.holders.count(slot.index) != 0 ? "used"
                        : state == "ready"                          ? "free"
                                                                    : "unavailable";
      ++slots[{worker.facts.pool, kind, use}];
    }
  });
  for (const auto& [state, count] : by_state) series.Set(metric::kWorkers, {state}, count);
  for (const auto& [labels, count] : slots) series.Set(metric::kSlots, labels, count);
}

void FillController(const Snapshot& snapshot, const SeriesInputs& inputs, ScrapedSeries& series) {
  series.Set(metric::kControllerInfo, {Version()}, 1);
  series.Set(metric::kControllerTerm, static_cast<double>(snapshot.term));
  series.Set(metric::kControllerStartTime,
             absl::ToDoubleSeconds(inputs.started - absl::UnixEpoch()));
  series.Set(metric::kControllerResidentBytes, static_cast<double>(inputs.resident_bytes));
  series.Set(metric::kControllerInsecure, inputs.insecure ? 1 : 0);
  series.Set(metric::kControllerHeld, inputs.held ? 1 : 0);
  if (inputs.certificate_end.has_value()) {
    series.Set(metric::kControllerCertificateExpiry,
               absl::ToDoubleSeconds(*inputs.certificate_end - absl::UnixEpoch()));
  }
  series.Set(metric::kOutboxMessages, static_cast<double>(snapshot.outbox.size()));
  series.Set(metric::kOutboxSentTotal, static_cast<double>(inputs.engine.assignments_sent));
  series.Set(metric::kCommitsTotal, static_cast<double>(inputs.engine.commits));
  series.Set(metric::kCommitSecondsTotal, absl::ToDoubleSeconds(inputs.engine.commit_time));
  series.Set(metric::kEventsTotal, static_cast<double>(snapshot.last_event));
  const Counters& counters = snapshot.counters;
  series.Set(metric::kSaveSlotSecondsTotal, {"at_stake"},
             static_cast<double>(counters.stake_slot_seconds));
  series.Set(metric::kSaveSlotSecondsTotal, {"lost"},
             static_cast<double>(counters.lost_slot_seconds));
  series.Set(metric::kStaleReportsTotal,
             static_cast<double>(snapshot.counters.stale_reports + inputs.ingest.refused_records));
  series.Set(metric::kMetricPointsTotal, static_cast<double>(inputs.ingest.points));
  series.Set(metric::kRefusedPointsTotal, static_cast<double>(inputs.ingest.refused_points));
  series.Set(metric::kLogBytesTotal, static_cast<double>(inputs.ingest.log_bytes));
  series.Set(metric::kDroppedPointsTotal, static_cast<double>(inputs.ingest.dropped_points));
  series.Set(metric::kDroppedLogBytesTotal, static_cast<double>(inputs.ingest.dropped_log_bytes));
  if (inputs.backups.has_value()) {
    series.Set(metric::kBackupNewestTime,
               absl::ToDoubleSeconds(inputs.backups->newest - absl::UnixEpoch()));
    series.Set(metric::kBackupIntervalSeconds, absl::ToDoubleSeconds(inputs.backups->every));
  }
  for (const auto& [port, closed] : inputs.closed_connections) {
    series.Set(metric::kClosedConnectionsTotal, {port}, static_cast<double>(closed));
  }
  for (const auto& [name, bytes] : inputs.database_bytes) {
    series.Set(metric::kDatabaseBytes, {name}, static_cast<double>(bytes));
  }
}

}  // namespace

std::vector<prometheus::MetricFamily> CollectSeries(const Snapshot& snapshot,
                                                    const SeriesInputs& inputs,
                                                    MetricFamilies& families) {
  ScrapedSeries series;
  FillJobs(snapshot, inputs, series);
  FillProjects(snapshot, series);
  FillWorkers(snapshot, series);
  FillController(snapshot, inputs, series);
  families.Add(metric::kControllerDroppedTotal, static_cast<double>(series.refused()));
  return series.TakeFamilies();
}

}  // namespace muster::controller
