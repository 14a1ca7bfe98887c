// Between the protocol's messages and the model's types. Pure; any thread.
//
// What comes from outside is checked here: wrong sizes, unknown enum values and broken bounds are
// INVALID_ARGUMENT.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/model/snapshot.h"
#include "controller/model/types/events.h"
#include "controller/model/types/metrics_types.h"
#include "muster/v1/job_service.pb.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::controller {

// ---- model -> people ----
v1::JobSummary ToProto(const Job& job);
v1::Attempt ToProto(const Attempt& attempt);
v1::JobEvent ToProto(const JobEvent& event);
v1::CheckpointInfo ToProto(const Checkpoint& checkpoint);
v1::WorkerInfo ToProto(const Worker& worker);

// JobSettings.resume_from for people. Requires that it is not empty.
v1::ResumeSource ResumeSourceOf(const Snapshot& snapshot, const std::vector<uint64_t>& resume_from);

// All attempts, oldest first, with the steps that each one lost to the next.
std::vector<v1::Attempt> AttemptsOf(const Job& job);
// How often it may still be tried again, by failure class.
std::vector<v1::RestartBudget> BudgetsOf(const Job& job);

// ---- model -> agents ----
v1::ControllerMessage ToProto(const Assignment& assignment);

// ---- agents -> model ----
absl::StatusOr<WorkerHello> FromProto(const v1::Hello& hello);
// The answer to a Hello that was taken. `stale`: ranks of its that must go.
v1::Welcome WelcomeOf(const Snapshot& snapshot, const std::vector<StaleRank>& stale,
                      absl::Duration heartbeat_interval, absl::Duration lease);
absl::StatusOr<std::vector<RankStatus>> FromProto(
    const google::protobuf::RepeatedPtrField<v1::RankStatus>& ranks);

// Null: the agent does not say.
absl::StatusOr<std::shared_ptr<const WorkerUse>> UseOf(const v1::Heartbeat& heartbeat);

// Null: as last said.
absl::StatusOr<std::shared_ptr<const RootViews>> RootsOf(const v1::Heartbeat& heartbeat);
// Empty: it says nothing new of them.
absl::StatusOr<std::vector<DataVerdict>> DataVerdictsOf(const v1::Heartbeat& heartbeat);

// Who sent a report, and as which of its events.
struct ReportSource {
  std::string worker;
  std::string incarnation;
  uint64_t event_seq = 0;
};
absl::StatusOr<RankReport> FromProto(const v1::RankEvent& event, const ReportSource& source);
absl::StatusOr<CheckpointReport> FromProto(const v1::CheckpointEvent& event,
                                           const ReportSource& source);
VerifyReport FromProto(const v1::VerifyResult& result, const ReportSource& source);
DeleteReport FromProto(const v1::DeleteResult& result, const ReportSource& source);
absl::StatusOr<MetricsBatch> FromProto(const v1::BulkBatch& batch);

Fence FromProto(const v1::Fence& fence);
v1::Fence ToProto(const Fence& fence);

// Wall clock for display: Unix milliseconds, 0 for "never" and "not yet".
int64_t ToMillis(absl::Time time);

}  // namespace muster::controller
