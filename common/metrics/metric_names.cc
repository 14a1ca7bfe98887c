#include "common/metrics/metric_names.h"

namespace muster {

const std::vector<const MetricDef*>& ControllerMetrics() {
  static const auto* const kAll =
      new std::vector<const MetricDef*>{&metric::kJobState,
                                        &metric::kJobRanks,
                                        &metric::kJobLoss,
                                        &metric::kJobLearningRate,
                                        &metric::kJobGradientNorm,
                                        &metric::kJobSamplesPerSecond,
                                        &metric::kJobStep,
                                        &metric::kJobPlannedSteps,
                                        &metric::kJobEpoch,
                                        &metric::kJobStepSeconds,
                                        &metric::kJobStepPartSeconds,
                                        &metric::kJobMemoryBytes,
                                        &metric::kJobMemoryPeakBytes,
                                        &metric::kJobAccuracyRatio,
                                        &metric::kJobEvaluationLoss,
                                        &metric::kJobCheckpointsTotal,
                                        &metric::kJobRestartsTotal,
                                        &metric::kJobSlotSecondsTotal,
                                        &metric::kJobQueueSecondsTotal,
                                        &metric::kProjectSlotSecondsTotal,
                                        &metric::kProjectQueueSecondsTotal,
                                        &metric::kJobs,
                                        &metric::kJobsFinishedTotal,
                                        &metric::kQueueJobs,
                                        &metric::kQueueRanks,
                                        &metric::kQueueOldestSeconds,
                                        &metric::kWorkers,
                                        &metric::kSlots,
                                        &metric::kControllerInfo,
                                        &metric::kControllerTerm,
                                        &metric::kControllerStartTime,
                                        &metric::kControllerResidentBytes,
                                        &metric::kControllerInsecure,
                                        &metric::kRpcRequestsTotal,
                                        &metric::kRpcSecondsTotal,
                                        &metric::kRpcStreams,
                                        &metric::kOutboxMessages,
                                        &metric::kOutboxSentTotal,
                                        &metric::kCommitsTotal,
                                        &metric::kCommitSecondsTotal,
                                        &metric::kEventsTotal,
                                        &metric::kSaveSlotSecondsTotal,
                                        &metric::kMetricPointsTotal,
                                        &metric::kLogBytesTotal,
                                        &metric::kStaleReportsTotal,
                                        &metric::kDatabaseBytes,
                                        &metric::kControllerDroppedTotal};
  return *kAll;
}

const std::vector<const MetricDef*>& WorkerMetrics() {
  static const auto* const kAll =
      new std::vector<const MetricDef*>{&metric::kRankLoss,
                                        &metric::kRankLearningRate,
                                        &metric::kRankGradientNorm,
                                        &metric::kRankSamplesPerSecond,
                                        &metric::kRankStep,
                                        &metric::kRankEpoch,
                                        &metric::kRankLossScale,
                                        &metric::kRankSkippedSteps,
                                        &metric::kRankMemoryEstimateBytes,
                                        &metric::kRankEnergyJoules,
                                        &metric::kRankStepSeconds,
                                        &metric::kRankStepPartSeconds,
                                        &metric::kRankMemoryBytes,
                                        &metric::kRankMemoryPeakBytes,
                                        &metric::kRankAccuracyRatio,
                                        &metric::kRankEvaluationLoss,
                                        &metric::kRankLogBytesTotal,
                                        &metric::kDeviceHeld,
                                        &metric::kDeviceMemorySizeBytes,
                                        &metric::kDeviceMemoryUsedBytes,
                                        &metric::kDeviceUtilizationRatio,
                                        &metric::kDevicePowerWatts,
                                        &metric::kDeviceTemperature,
                                        &metric::kWorkerInfo,
                                        &metric::kWorkerStartTime,
                                        &metric::kWorkerResidentBytes,
                                        &metric::kWorkerMachineMemoryBytes,
                                        &metric::kWorkerCpus,
                                        &metric::kWorkerSlots,
                                        &metric::kWorkerSlotsUsed,
                                        &metric::kWorkerConnected,
                                        &metric::kWorkerConnectsTotal,
                                        &metric::kWorkerControllerTerm,
                                        &metric::kWorkerHeartbeatsTotal,
                                        &metric::kWorkerRanksStartedTotal,
                                        &metric::kWorkerRanksExitedTotal,
                                        &metric::kWorkerSpoolBytes,
                                        &metric::kWorkerSpoolLimitBytes,
                                        &metric::kWorkerSpoolDroppedTotal,
                                        &metric::kWorkerDroppedTotal};
  return *kAll;
}

const ReportedValue* FindReportedValue(absl::string_view value_name) {
  using namespace metric;  // NOLINT: the table reads better so
  static constexpr ReportedValue kTable[] = {
      {"loss", &kJobLoss, &kRankLoss, nullptr},
      {"lr", &kJobLearningRate, &kRankLearningRate, nullptr},
      {"grad_norm", &kJobGradientNorm, &kRankGradientNorm, nullptr},
      {"samples_per_second", &kJobSamplesPerSecond, nullptr, nullptr},
      {"rank_samples_per_second", nullptr, &kRankSamplesPerSecond, nullptr},
      {"step_seconds", &kJobStepSeconds, &kRankStepSeconds, nullptr},
      {"data_seconds", &kJobStepPartSeconds, &kRankStepPartSeconds, "data"},
      {"forward_backward_seconds", &kJobStepPartSeconds, &kRankStepPartSeconds, "forward_backward"},
      {"communication_seconds", &kJobStepPartSeconds, &kRankStepPartSeconds, "communication"},
      {"optimizer_seconds", &kJobStepPartSeconds, &kRankStepPartSeconds, "optimizer"},
      {"save_stall_seconds", &kJobStepPartSeconds, &kRankStepPartSeconds, "save_stall"},
      {"memory_bytes", &kJobMemoryBytes, &kRankMemoryBytes, nullptr},
      {"memory_peak_bytes", &kJobMemoryPeakBytes, &kRankMemoryPeakBytes, nullptr},
      {"train_accuracy", &kJobAccuracyRatio, &kRankAccuracyRatio, "train"},
      {"validation_accuracy", &kJobAccuracyRatio, &kRankAccuracyRatio, "validation"},
      {"test_accuracy", &kJobAccuracyRatio, &kRankAccuracyRatio, "test"},
      {"validation_top5_accuracy", &kJobAccuracyRatio, &kRankAccuracyRatio, "validation_top5"},
      {"test_top5_accuracy", &kJobAccuracyRatio, &kRankAccuracyRatio, "test_top5"},
      {"validation_loss", &kJobEvaluationLoss, &kRankEvaluationLoss, "validation"},
      {"test_loss", &kJobEvaluationLoss, &kRankEvaluationLoss, "test"},
      {"loss_scale", nullptr, &kRankLossScale, nullptr},
      {"skipped_steps", nullptr, &kRankSkippedSteps, nullptr},
      {"memory_estimate_bytes", nullptr, &kRankMemoryEstimateBytes, nullptr},
      {"energy_joules", nullptr, &kRankEnergyJoules, nullptr},
      {"epoch", &kJobEpoch, &kRankEpoch, nullptr},
  };
  for (const ReportedValue& entry : kTable) {
    if (value_name == entry.value_name) return &entry;
  }
  return nullptr;
}

}  // namespace muster
