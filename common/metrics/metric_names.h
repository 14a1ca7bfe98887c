// Every series that Muster exports: name, type, labels, unit and help. Pure data; nothing is
// exported under a name that is not here, and no name stands on both daemons (a test holds both).
//
// Names follow the OpenMetrics conventions: base units, `_total` for counters, `_seconds`,
// `_bytes`, `_ratio`. The label `job_id` is not called `job`, because Prometheus puts its own `job`
// label on every scraped series.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster {

enum class MetricType { kGauge, kCounter };

inline constexpr int kMaxMetricLabels = 4;

struct MetricDef {
  const char* name;
  MetricType type;
  // Names of the labels; values are given in this order. Unused entries are null.
  std::array<const char*, kMaxMetricLabels> labels;
  const char* unit;  // seconds, bytes, ratio, ...; "1" for plain numbers
  const char* help;
};

namespace metric {

// clang-format off
// ---- musterd: one job ------------------------------------------------------------------------------------------------
inline constexpr MetricDef kJobState{"muster_job_state", MetricType::kGauge, {"job_id", "job_name", "state"}, "1", "1 for the state that the job is in; series of other states are absent."};
inline constexpr MetricDef kJobRanks{"muster_job_ranks", MetricType::kGauge, {"job_id", "job_name"}, "1", "Ranks of the live attempt."};
inline constexpr MetricDef kJobLoss{"muster_job_loss", MetricType::kGauge, {"job_id", "job_name"}, "1", "Training loss, mean over the last report interval."};
inline constexpr MetricDef kJobLearningRate{"muster_job_learning_rate", MetricType::kGauge, {"job_id", "job_name"}, "1", "Learning rate of the last reported step."};
inline constexpr MetricDef kJobGradientNorm{"muster_job_gradient_norm", MetricType::kGauge, {"job_id", "job_name"}, "1", "Norm of the gradient before clipping, at the last reported step."};
inline constexpr MetricDef kJobSamplesPerSecond{"muster_job_samples_per_second", MetricType::kGauge, {"job_id", "job_name"}, "1", "Training samples per second of the whole gang."};
inline constexpr MetricDef kJobStep{"muster_job_step", MetricType::kGauge, {"job_id", "job_name"}, "1", "Last reported optimizer step."};
inline constexpr MetricDef kJobPlannedSteps{"muster_job_planned_steps", MetricType::kGauge, {"job_id", "job_name"}, "1", "Optimizer steps that the whole job will take."};
inline constexpr MetricDef kJobEpoch{"muster_job_epoch", MetricType::kGauge, {"job_id", "job_name"}, "1", "Passes over the training set so far."};
inline constexpr MetricDef kJobStepSeconds{"muster_job_step_seconds", MetricType::kGauge, {"job_id", "job_name"}, "seconds", "Time of one optimizer step, mean over the last report interval of rank 0."};
inline constexpr MetricDef kJobStepPartSeconds{"muster_job_step_part_seconds", MetricType::kGauge, {"job_id", "job_name", "part"}, "seconds", "Share of a step's time by part: data, forward_backward, communication, optimizer, save_stall."};
inline constexpr MetricDef kJobMemoryBytes{"muster_job_memory_bytes", MetricType::kGauge, {"job_id", "job_name"}, "bytes", "Memory in use by the largest rank."};
inline constexpr MetricDef kJobMemoryPeakBytes{"muster_job_memory_peak_bytes", MetricType::kGauge, {"job_id", "job_name"}, "bytes", "Highest memory use so far of the largest rank."};
inline constexpr MetricDef kJobAccuracyRatio{"muster_job_accuracy_ratio", MetricType::kGauge, {"job_id", "job_name", "split"}, "ratio", "Accuracy from 0 to 1 by split: train, validation, test; validation_top5 and test_top5 for the right class among the five likeliest."};
inline constexpr MetricDef kJobEvaluationLoss{"muster_job_evaluation_loss", MetricType::kGauge, {"job_id", "job_name", "split"}, "1", "Loss of the last evaluation by split: validation, test."};
inline constexpr MetricDef kJobPerplexity{"muster_job_perplexity", MetricType::kGauge, {"job_id", "job_name", "split"}, "1", "Exponential of a language model's loss in the last evaluation by split: validation, test."};
inline constexpr MetricDef kJobOwnMetric{"muster_job_own_metric", MetricType::kGauge, {"job_id", "job_name", "metric"}, "1", "Newest value of what the job reports under a name of its own."};
inline constexpr MetricDef kJobCheckpointsTotal{"muster_job_checkpoints_total", MetricType::kCounter, {"job_id", "job_name"}, "1", "Checkpoints committed."};
inline constexpr MetricDef kJobCheckpointAgeRatio{"muster_job_checkpoint_age_ratio", MetricType::kGauge, {"job_id", "job_name"}, "ratio", "Work since the newest checkpoint of a running training job over what its checkpoint rule lets pass between two: 1 when the next one is due."};
inline constexpr MetricDef kJobFailuresTotal{"muster_job_failures_total", MetricType::kCounter, {"job_id", "job_name", "failure_class"}, "1", "Attempts that were lost, by class of failure: worker_lost, hang, non_finite, ...; a class that never came is absent."};
inline constexpr MetricDef kJobRestartsTotal{"muster_job_restarts_total", MetricType::kCounter, {"job_id", "job_name"}, "1", "Attempts after the first."};
inline constexpr MetricDef kJobSlotSecondsTotal{"muster_job_slot_seconds_total", MetricType::kCounter, {"job_id", "job_name", "label"}, "seconds", "Slot-seconds that the job held, by what they were good for: start, rendezvous, load, productive, save_stall, recompute, hang, idle, drain."};
inline constexpr MetricDef kJobQueueSecondsTotal{"muster_job_queue_seconds_total", MetricType::kCounter, {"job_id", "job_name"}, "seconds", "Time that the job spent in the queue."};
// ---- musterd: projects -----------------------------------------------------------------------------------------------
inline constexpr MetricDef kProjectSlotSecondsTotal{"muster_project_slot_seconds_total", MetricType::kCounter, {"project", "label"}, "seconds", "Slot-seconds that all jobs of the project held, by what they were good for."};
inline constexpr MetricDef kProjectQueueSecondsTotal{"muster_project_queue_seconds_total", MetricType::kCounter, {"project"}, "seconds", "Time that all jobs of the project spent in the queue."};
// ---- musterd: the cluster --------------------------------------------------------------------------------------------
inline constexpr MetricDef kJobs{"muster_jobs", MetricType::kGauge, {"state"}, "1", "Jobs known to the controller by state."};
inline constexpr MetricDef kJobsWithoutSeries{"muster_jobs_without_series", MetricType::kGauge, {"state"}, "1", "Jobs that have no series of their own, since there are too many of their kind: running, waiting, ended."};
inline constexpr MetricDef kOwnMetricsLeftOut{"muster_job_own_metrics_left_out", MetricType::kGauge, {}, "1", "Values that jobs report under names of their own and that have no series: too many, or with a name that is too long."};
inline constexpr MetricDef kJobsFinishedTotal{"muster_jobs_finished_total", MetricType::kCounter, {"state"}, "1", "Jobs that ended in this life of the controller, by final state."};
inline constexpr MetricDef kQueueJobs{"muster_queue_jobs", MetricType::kGauge, {}, "1", "Jobs that wait to be placed."};
inline constexpr MetricDef kQueueRanks{"muster_queue_ranks", MetricType::kGauge, {}, "1", "Ranks that the waiting jobs need at least."};
inline constexpr MetricDef kQueueOldestSeconds{"muster_queue_oldest_wait_seconds", MetricType::kGauge, {}, "seconds", "How long the longest waiting job has waited."};
inline constexpr MetricDef kQueueOldestFittingSeconds{"muster_queue_oldest_fitting_wait_seconds", MetricType::kGauge, {}, "seconds", "How long the longest waiting job has waited of those that the free slots of one of their pools could hold by their number."};
inline constexpr MetricDef kWorkers{"muster_workers", MetricType::kGauge, {"state"}, "1", "Workers known to the controller by state."};
inline constexpr MetricDef kSlots{"muster_slots", MetricType::kGauge, {"pool", "kind", "use"}, "1", "Slots by pool, kind (cpu, gpu) and use (free, used, unavailable)."};
// ---- musterd: itself -------------------------------------------------------------------------------------------------
inline constexpr MetricDef kControllerInfo{"muster_controller_info", MetricType::kGauge, {"version"}, "1", "Always 1; the version of musterd is a label."};
inline constexpr MetricDef kControllerTerm{"muster_controller_term", MetricType::kGauge, {}, "1", "Life of the controller: one more at each start."};
inline constexpr MetricDef kControllerStartTime{"muster_controller_start_time_seconds", MetricType::kGauge, {}, "seconds", "Unix time at which this controller started."};
inline constexpr MetricDef kControllerResidentBytes{"muster_controller_resident_memory_bytes", MetricType::kGauge, {}, "bytes", "Resident memory of musterd."};
inline constexpr MetricDef kAutoscaleWantedWorkers{"muster_autoscale_wanted_workers", MetricType::kGauge, {"pool"}, "1", "Workers that a scaled pool is to have."};
inline constexpr MetricDef kAutoscaleFailing{"muster_autoscale_failing", MetricType::kGauge, {"pool"}, "1", "1 while the number of a scaled pool's workers cannot be read or changed."};
inline constexpr MetricDef kAutoscaleFailuresTotal{"muster_autoscale_failures_total", MetricType::kCounter, {"pool"}, "1", "Failed attempts to read or change the number of a scaled pool's workers."};
inline constexpr MetricDef kControllerInsecure{"muster_controller_insecure", MetricType::kGauge, {}, "1", "1 when musterd serves beyond loopback without TLS."};
inline constexpr MetricDef kControllerHeld{"muster_controller_held", MetricType::kGauge, {}, "1", "1 while a controller that was restored from a backup places, ends and deletes nothing."};
inline constexpr MetricDef kControllerCertificateExpiry{"muster_controller_certificate_expiry_time_seconds", MetricType::kGauge, {}, "seconds", "Unix time at which the certificate that musterd uses ends; absent without TLS."};
inline constexpr MetricDef kRpcRequestsTotal{"muster_rpc_requests_total", MetricType::kCounter, {"method", "code"}, "1", "Finished calls of the controller's gRPC services by method and status code."};
inline constexpr MetricDef kRpcSecondsTotal{"muster_rpc_seconds_total", MetricType::kCounter, {"method"}, "seconds", "Time spent in finished unary calls of the controller's gRPC services."};
inline constexpr MetricDef kRpcStreams{"muster_rpc_streams", MetricType::kGauge, {"method"}, "1", "Open streams by method."};
inline constexpr MetricDef kClosedConnectionsTotal{"muster_controller_closed_connections_total", MetricType::kCounter, {"port"}, "1", "Connections that musterd closed because too many were open, by port (people, workers, http): to make room for another, or at once when it could make none."};
inline constexpr MetricDef kOutboxMessages{"muster_outbox_messages", MetricType::kGauge, {}, "1", "Assignments committed but not yet acknowledged by a worker."};
inline constexpr MetricDef kOutboxSentTotal{"muster_outbox_sent_total", MetricType::kCounter, {}, "1", "Assignments sent to workers, repeats included."};
inline constexpr MetricDef kCommitsTotal{"muster_state_commits_total", MetricType::kCounter, {}, "1", "Committed transactions of state.db."};
inline constexpr MetricDef kCommitSecondsTotal{"muster_state_commit_seconds_total", MetricType::kCounter, {}, "seconds", "Time spent in commits of state.db."};
inline constexpr MetricDef kEventsTotal{"muster_state_events_total", MetricType::kCounter, {}, "1", "Events of jobs written to the event log."};
inline constexpr MetricDef kSaveSlotSecondsTotal{"muster_save_slot_seconds_total", MetricType::kCounter, {"work"}, "seconds", "Slot-seconds of unsaved work of gangs that were asked to save and leave, by work: at_stake when they were asked, lost when they had left."};
inline constexpr MetricDef kMetricPointsTotal{"muster_ingest_metric_points_total", MetricType::kCounter, {}, "1", "Metric points taken into metrics.db."};
inline constexpr MetricDef kRefusedPointsTotal{"muster_ingest_refused_points_total", MetricType::kCounter, {}, "1", "Metric points that were left out: their names cannot be kept, or there are too many of them."};
inline constexpr MetricDef kLogBytesTotal{"muster_ingest_log_bytes_total", MetricType::kCounter, {}, "bytes", "Bytes of rank logs taken in."};
inline constexpr MetricDef kDroppedPointsTotal{"muster_ingest_dropped_points_total", MetricType::kCounter, {}, "1", "Metric points that were removed again: the oldest of jobs that report more than --job-metrics-max-bytes keeps of one job."};
inline constexpr MetricDef kDroppedLogBytesTotal{"muster_ingest_dropped_log_bytes_total", MetricType::kCounter, {}, "bytes", "Bytes of rank logs that were removed again: the oldest of jobs that write more than --job-log-max-bytes keeps of one job."};
inline constexpr MetricDef kStaleReportsTotal{"muster_ingest_stale_reports_total", MetricType::kCounter, {}, "1", "Reports of fenced attempts that were refused."};
inline constexpr MetricDef kBackupNewestTime{"muster_backup_newest_time_seconds", MetricType::kGauge, {}, "seconds", "Unix time at which the newest whole backup was finished; 0: there is none. Absent without --backup-dir."};
inline constexpr MetricDef kBackupIntervalSeconds{"muster_backup_interval_seconds", MetricType::kGauge, {}, "seconds", "How often a backup is to be made; 0: only when somebody asks. Absent without --backup-dir."};
inline constexpr MetricDef kDatabaseBytes{"muster_database_bytes", MetricType::kGauge, {"database"}, "bytes", "Size of a database file."};
inline constexpr MetricDef kControllerDroppedTotal{"muster_controller_dropped_series_total", MetricType::kCounter, {}, "1", "Updates refused because their metric already had its most label sets."};

// ---- agent: one rank -------------------------------------------------------------------------------------------------
inline constexpr MetricDef kRankLoss{"muster_rank_loss", MetricType::kGauge, {"job_id", "rank"}, "1", "Training loss, mean over the last report interval."};
inline constexpr MetricDef kRankLearningRate{"muster_rank_learning_rate", MetricType::kGauge, {"job_id", "rank"}, "1", "Learning rate of the last reported step."};
inline constexpr MetricDef kRankGradientNorm{"muster_rank_gradient_norm", MetricType::kGauge, {"job_id", "rank"}, "1", "Norm of the gradient before clipping, at the last reported step."};
inline constexpr MetricDef kRankSamplesPerSecond{"muster_rank_samples_per_second", MetricType::kGauge, {"job_id", "rank"}, "1", "Training samples per second of this rank."};
inline constexpr MetricDef kRankStep{"muster_rank_step", MetricType::kGauge, {"job_id", "rank"}, "1", "Last reported optimizer step."};
inline constexpr MetricDef kRankLossScale{"muster_rank_loss_scale", MetricType::kGauge, {"job_id", "rank"}, "1", "What the loss of fp16 training is multiplied with."};
inline constexpr MetricDef kRankSkippedSteps{"muster_rank_skipped_steps", MetricType::kGauge, {"job_id", "rank"}, "1", "Steps of fp16 training whose gradient overflowed, since the run began."};
inline constexpr MetricDef kRankMemoryEstimateBytes{"muster_rank_memory_estimate_bytes", MetricType::kGauge, {"job_id", "rank"}, "bytes", "Highest memory use that was estimated before the first step."};
inline constexpr MetricDef kRankEnergyJoules{"muster_rank_energy_joules", MetricType::kGauge, {"job_id", "rank"}, "joules", "Energy that the rank's GPUs have drawn since its process started, as the driver counts it."};
inline constexpr MetricDef kRankEpoch{"muster_rank_epoch", MetricType::kGauge, {"job_id", "rank"}, "1", "Passes over the training set so far."};
inline constexpr MetricDef kRankStepSeconds{"muster_rank_step_seconds", MetricType::kGauge, {"job_id", "rank"}, "seconds", "Time of one optimizer step, mean over the last report interval."};
inline constexpr MetricDef kRankStepPartSeconds{"muster_rank_step_part_seconds", MetricType::kGauge, {"job_id", "rank", "part"}, "seconds", "Share of a step's time by part: data, forward_backward, communication, optimizer, save_stall."};
inline constexpr MetricDef kRankDataStageSeconds{"muster_rank_data_stage_seconds", MetricType::kGauge, {"job_id", "rank", "stage"}, "seconds", "Time that threads were busy making a step's batch, added over threads, by stage: read, decode, augment. That the step waited for it is part data of muster_rank_step_part_seconds."};
inline constexpr MetricDef kRankMemoryBytes{"muster_rank_memory_bytes", MetricType::kGauge, {"job_id", "rank"}, "bytes", "Memory in use: of the GPU where the rank has one, else resident memory."};
inline constexpr MetricDef kRankMemoryPeakBytes{"muster_rank_memory_peak_bytes", MetricType::kGauge, {"job_id", "rank"}, "bytes", "Highest memory use so far."};
inline constexpr MetricDef kRankAccuracyRatio{"muster_rank_accuracy_ratio", MetricType::kGauge, {"job_id", "rank", "split"}, "ratio", "Accuracy from 0 to 1 by split, as this rank reported it: train, validation, test."};
inline constexpr MetricDef kRankEvaluationLoss{"muster_rank_evaluation_loss", MetricType::kGauge, {"job_id", "rank", "split"}, "1", "Loss of the last evaluation by split, as this rank reported it: validation, test."};
inline constexpr MetricDef kRankPerplexity{"muster_rank_perplexity", MetricType::kGauge, {"job_id", "rank", "split"}, "1", "Exponential of a language model's loss in the last evaluation by split, as this rank reported it: validation, test."};
inline constexpr MetricDef kRankLogBytesTotal{"muster_rank_log_bytes_total", MetricType::kCounter, {"job_id", "rank"}, "bytes", "Bytes that the rank wrote to stdout and stderr."};
// ---- agent: devices --------------------------------------------------------------------------------------------------
inline constexpr MetricDef kDeviceHeld{"muster_device_held", MetricType::kGauge, {"slot", "kind", "device"}, "1", "1 when a rank holds the slot, else 0."};
inline constexpr MetricDef kDeviceMemorySizeBytes{"muster_device_memory_size_bytes", MetricType::kGauge, {"slot", "kind", "device"}, "bytes", "Memory of the device, or a CPU slot's share of the machine's."};
inline constexpr MetricDef kDeviceMemoryUsedBytes{"muster_device_memory_used_bytes", MetricType::kGauge, {"slot", "kind", "device"}, "bytes", "Memory in use on the device."};
inline constexpr MetricDef kDeviceUtilizationRatio{"muster_device_utilization_ratio", MetricType::kGauge, {"slot", "kind", "device"}, "ratio", "Share of the last interval in which the device computed, as the driver says."};
inline constexpr MetricDef kDevicePowerWatts{"muster_device_power_watts", MetricType::kGauge, {"slot", "kind", "device"}, "watts", "Power draw of the device, as the driver says."};
inline constexpr MetricDef kDeviceTemperature{"muster_device_temperature_celsius", MetricType::kGauge, {"slot", "kind", "device"}, "celsius", "Temperature of the device, as the driver says."};
// ---- agent: itself ---------------------------------------------------------------------------------------------------
inline constexpr MetricDef kWorkerInfo{"muster_worker_info", MetricType::kGauge, {"worker", "pool", "version"}, "1", "Always 1; the worker's name, pool and version are labels."};
inline constexpr MetricDef kWorkerStartTime{"muster_worker_start_time_seconds", MetricType::kGauge, {}, "seconds", "Unix time at which this agent started."};
inline constexpr MetricDef kWorkerResidentBytes{"muster_worker_resident_memory_bytes", MetricType::kGauge, {}, "bytes", "Resident memory of the agent."};
inline constexpr MetricDef kWorkerMachineMemoryBytes{"muster_worker_machine_memory_bytes", MetricType::kGauge, {}, "bytes", "Memory of the machine."};
inline constexpr MetricDef kWorkerCpus{"muster_worker_cpus", MetricType::kGauge, {}, "1", "CPU cores that the agent may use."};
inline constexpr MetricDef kWorkerSlots{"muster_worker_slots", MetricType::kGauge, {"kind"}, "1", "Slots of this worker by kind."};
inline constexpr MetricDef kWorkerSlotsUsed{"muster_worker_slots_used", MetricType::kGauge, {"kind"}, "1", "Slots that ranks hold, by kind."};
inline constexpr MetricDef kWorkerConnected{"muster_worker_connected", MetricType::kGauge, {}, "1", "1 while the session with the controller is up, else 0."};
inline constexpr MetricDef kWorkerConnectsTotal{"muster_worker_connects_total", MetricType::kCounter, {}, "1", "Sessions opened with the controller."};
inline constexpr MetricDef kWorkerControllerTerm{"muster_worker_controller_term", MetricType::kGauge, {}, "1", "Term of the controller that the agent last spoke to."};
inline constexpr MetricDef kWorkerHeartbeatsTotal{"muster_worker_heartbeats_total", MetricType::kCounter, {}, "1", "Heartbeats sent."};
inline constexpr MetricDef kWorkerRanksStartedTotal{"muster_worker_ranks_started_total", MetricType::kCounter, {}, "1", "Rank processes started."};
inline constexpr MetricDef kWorkerRanksExitedTotal{"muster_worker_ranks_exited_total", MetricType::kCounter, {"outcome"}, "1", "Rank processes that ended, by outcome."};
inline constexpr MetricDef kWorkerSpoolBytes{"muster_worker_spool_bytes", MetricType::kGauge, {}, "bytes", "Records on disk that the controller has not acknowledged yet."};
inline constexpr MetricDef kWorkerSpoolLimitBytes{"muster_worker_spool_limit_bytes", MetricType::kGauge, {}, "bytes", "The most that the spool may hold."};
inline constexpr MetricDef kWorkerSpoolDroppedTotal{"muster_worker_spool_dropped_records_total", MetricType::kCounter, {}, "1", "Records lost because the spool was full."};
inline constexpr MetricDef kWorkerPreemptionSourceUp{"muster_worker_preemption_source_up", MetricType::kGauge, {"source"}, "1", "1 while the cloud's metadata service answers what it is asked, else 0; absent without a --preemption-source."};
inline constexpr MetricDef kWorkerPreemptionNoticesTotal{"muster_worker_preemption_notices_total", MetricType::kCounter, {"source"}, "1", "Notices by the cloud that this machine will be taken away."};
inline constexpr MetricDef kWorkerPreemptionPending{"muster_worker_preemption_pending", MetricType::kGauge, {}, "1", "1 while such a notice stands, else 0."};
inline constexpr MetricDef kWorkerCertificateExpiry{"muster_worker_certificate_expiry_time_seconds", MetricType::kGauge, {}, "seconds", "Unix time at which the certificate that the agent uses ends; absent without TLS."};
inline constexpr MetricDef kWorkerDroppedTotal{"muster_worker_dropped_series_total", MetricType::kCounter, {}, "1", "Updates refused because their metric already had its most label sets."};
// clang-format on

}  // namespace metric

// What each daemon exports; musterd in this order.
const std::vector<const MetricDef*>& ControllerMetrics();
const std::vector<const MetricDef*>& WorkerMetrics();

// How a value that a rank reports (MetricsLine.values, RankStatus.latest) is exported.
struct ReportedValue {
  const char* value_name;    // "data_seconds"
  const MetricDef* of_job;   // null: not exported by musterd
  const MetricDef* of_rank;  // null: not exported by agents
  // Value for the metric's last label (part or split); null: the metric has no such label.
  const char* last_label;
};

// nullptr for a name that is not exported.
const ReportedValue* FindReportedValue(absl::string_view value_name);

}  // namespace muster
