// A JobService without a controller: answers what a test puts into it. Listens on a port of the
// system's choice.
#pragma once

#include <grpcpp/server.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "muster/v1/job_service.grpc.pb.h"

namespace muster::cli::testing {

// Thread-safe. Every call needs the token kToken.
class FakeJobService final : public v1::JobService::Service {
 public:
  static constexpr char kToken[] = "t0ken";

  FakeJobService() = default;
  ~FakeJobService() override;

  // Starts or, after Stop(), starts again on the same port.
  void Start();
  void Stop();
  std::string address() const;

  void PutJob(v1::GetJobResponse job);
  // It is there once a stream of events was cut off.
  void PutJobWhenEventsAreCut(v1::GetJobResponse job);
  void PutWorker(v1::WorkerInfo worker);
  // Workers on one page of their list; 0: all.
  void SetWorkersPage(size_t most);
  void PutLog(uint64_t job, v1::StreamLogsResponse chunk);
  void PutMetric(uint64_t job, v1::MetricPoint point);
  void PutLedger(uint64_t job, v1::Ledger total);
  // The next so many calls of StreamLogs are cut off behind what there is; then this was written
  // meanwhile.
  void CutLogsOff(int calls, std::vector<v1::StreamLogsResponse> meanwhile = {});
  // How streams of logs and events that are cut off end; as UNAVAILABLE unless it is called.
  void SetCutEnd(const absl::Status& status);
  // How the streams of those who follow events end behind the last one.
  void SetEventsEnd(const absl::Status& status);
  // The next calls of Submit fail so, one after the other. The job of a call that fails with
  // DEADLINE_EXCEEDED is in all the same.
  void FailSubmits(std::vector<absl::Status> statuses);
  // What VerifyCheckpoint finds.
  void SetVerdict(v1::CheckpointState state, const std::string& message);

  // From now on it does not know GetCheckpoint.
  void BeOlder();

  // The next calls that change a job or forget a worker fail so, one after the other. The worker is
  // forgotten all the same.
  void FailChanges(std::vector<absl::Status> statuses);

  std::vector<v1::SubmitRequest> submits();
  std::vector<v1::CancelJobRequest> cancels();
  std::vector<v1::StreamLogsRequest> log_requests();
  std::vector<v1::ControlJobRequest> controls();
  std::vector<v1::ControlCheckpointRequest> checkpoint_controls();
  std::vector<v1::UpdateJobRequest> updates();
  std::vector<v1::CordonWorkerRequest> cordons();
  std::vector<v1::ForgetWorkerRequest> forgets();
  std::vector<v1::SetProjectRequest> project_sets();
  v1::ListJobsRequest last_list();
  void PutProject(v1::ProjectInfo project);
  void PutEvent(v1::JobEvent event);
  int lists();

  grpc::Status GetVersion(grpc::ServerContext*, const v1::GetVersionRequest*,
                          v1::GetVersionResponse*) override;
  // Settles checkpoint.resume_from to step 500 of job 3, `auto` to nothing. Every job is job 7,
  // every array the jobs 7, 8 and 9; a key stands for the spec that it came with first.
  grpc::Status Submit(grpc::ServerContext*, const v1::SubmitRequest*, v1::SubmitResponse*) override;
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest*,
                        v1::ListJobsResponse*) override;
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest*, v1::GetJobResponse*) override;
  // Says of every job that it lacks a slot.
  grpc::Status ExplainJob(grpc::ServerContext*, const v1::ExplainJobRequest*,
                          v1::ExplainJobResponse*) override;
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest*,
                         v1::CancelJobResponse*) override;
  grpc::Status ControlJob(grpc::ServerContext*, const v1::ControlJobRequest*,
                          v1::ControlJobResponse*) override;
  grpc::Status UpdateJob(grpc::ServerContext*, const v1::UpdateJobRequest*,
                         v1::UpdateJobResponse*) override;
  grpc::Status CordonWorker(grpc::ServerContext*, const v1::CordonWorkerRequest*,
                            v1::CordonWorkerResponse*) override;
  grpc::Status ForgetWorker(grpc::ServerContext*, const v1::ForgetWorkerRequest*,
                            v1::ForgetWorkerResponse*) override;
  grpc::Status ListProjects(grpc::ServerContext*, const v1::ListProjectsRequest*,
                            v1::ListProjectsResponse*) override;
  grpc::Status SetProject(grpc::ServerContext*, const v1::SetProjectRequest*,
                          v1::SetProjectResponse*) override;
  // Sends one event a message; the first call of a follower is cut off after its first one.
  grpc::Status StreamEvents(grpc::ServerContext*, const v1::StreamEventsRequest*,
                            grpc::ServerWriter<v1::StreamEventsResponse>*) override;
  // Sends the job at once and at each PutJob of it.
  grpc::Status WatchJob(grpc::ServerContext*, const v1::WatchJobRequest*,
                        grpc::ServerWriter<v1::WatchJobResponse>*) override;
  // Takes each chunk for a line, and all of them for one rank's where a tail is asked for.
  grpc::Status StreamLogs(grpc::ServerContext*, const v1::StreamLogsRequest*,
                          grpc::ServerWriter<v1::StreamLogsResponse>*) override;
  grpc::Status QueryMetrics(grpc::ServerContext*, const v1::QueryMetricsRequest*,
                            v1::QueryMetricsResponse*) override;
  // Of a job whose ledger was put; of others it is empty.
  grpc::Status GetGoodput(grpc::ServerContext*, const v1::GetGoodputRequest*,
                          v1::GetGoodputResponse*) override;
  grpc::Status ListCheckpoints(grpc::ServerContext*, const v1::ListCheckpointsRequest*,
                               v1::ListCheckpointsResponse*) override;
  grpc::Status GetCheckpoint(grpc::ServerContext*, const v1::GetCheckpointRequest*,
                             v1::GetCheckpointResponse*) override;
  grpc::Status VerifyCheckpoint(grpc::ServerContext*, const v1::VerifyCheckpointRequest*,
                                v1::VerifyCheckpointResponse*) override;
  // Of a job that was put. A pinned one is not removed, nor one whose path is "needed".
  grpc::Status ControlCheckpoint(grpc::ServerContext*, const v1::ControlCheckpointRequest*,
                                 v1::ControlCheckpointResponse*) override;
  grpc::Status ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest*,
                           v1::ListWorkersResponse*) override;

 private:
  absl::StatusOr<v1::GetJobResponse> FindLocked(const v1::JobRef& ref) MUSTER_REQUIRES(mutex_);

  Mutex mutex_;
  CondVar changed_;
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  std::optional<v1::GetJobResponse> job_at_cut_ MUSTER_GUARDED_BY(mutex_);
  int version_ MUSTER_GUARDED_BY(mutex_) = 0;  // +1 at each PutJob
  std::map<uint64_t, v1::GetJobResponse> jobs_ MUSTER_GUARDED_BY(mutex_);
  std::map<std::string, v1::WorkerInfo> workers_ MUSTER_GUARDED_BY(mutex_);
  size_t workers_page_ MUSTER_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, std::vector<v1::StreamLogsResponse>> logs_ MUSTER_GUARDED_BY(mutex_);
  std::map<uint64_t, std::vector<v1::MetricPoint>> metrics_ MUSTER_GUARDED_BY(mutex_);
  std::map<uint64_t, v1::Ledger> ledgers_ MUSTER_GUARDED_BY(mutex_);
  std::vector<v1::StreamLogsRequest> log_requests_ MUSTER_GUARDED_BY(mutex_);
  int log_cuts_ MUSTER_GUARDED_BY(mutex_) = 0;
  std::vector<v1::StreamLogsResponse> written_meanwhile_ MUSTER_GUARDED_BY(mutex_);
  absl::Status cut_end_ MUSTER_GUARDED_BY(mutex_) = absl::UnavailableError("stopping");
  absl::Status events_end_ MUSTER_GUARDED_BY(mutex_);
  std::map<std::string, std::string> keys_ MUSTER_GUARDED_BY(mutex_);  // their specs
  std::vector<absl::Status> submit_failures_ MUSTER_GUARDED_BY(mutex_);
  // The first of change_failures_, used up; OK when there is none.
  absl::Status NextChangeLocked() MUSTER_REQUIRES(mutex_);

  std::vector<absl::Status> change_failures_ MUSTER_GUARDED_BY(mutex_);
  std::vector<v1::SubmitRequest> submits_ MUSTER_GUARDED_BY(mutex_);
  std::vector<v1::CancelJobRequest> cancels_ MUSTER_GUARDED_BY(mutex_);
  std::vector<v1::ControlJobRequest> controls_ MUSTER_GUARDED_BY(mutex_);
  std::vector<v1::ControlCheckpointRequest> checkpoint_controls_ MUSTER_GUARDED_BY(mutex_);
  std::vector<v1::UpdateJobRequest> updates_ MUSTER_GUARDED_BY(mutex_);
  std::vector<v1::CordonWorkerRequest> cordons_ MUSTER_GUARDED_BY(mutex_);
  std::vector<v1::ForgetWorkerRequest> forgets_ MUSTER_GUARDED_BY(mutex_);
  std::vector<v1::SetProjectRequest> project_sets_ MUSTER_GUARDED_BY(mutex_);
  std::map<std::string, v1::ProjectInfo> projects_ MUSTER_GUARDED_BY(mutex_);
  std::vector<v1::JobEvent> events_ MUSTER_GUARDED_BY(mutex_);
  bool cut_off_ MUSTER_GUARDED_BY(mutex_) = false;
  v1::ListJobsRequest last_list_ MUSTER_GUARDED_BY(mutex_);
  int lists_ MUSTER_GUARDED_BY(mutex_) = 0;
  v1::CheckpointState verdict_ MUSTER_GUARDED_BY(mutex_) = v1::VERIFIED;
  bool older_ MUSTER_GUARDED_BY(mutex_) = false;
  std::string verdict_message_ MUSTER_GUARDED_BY(mutex_);
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// A job as `ls` shows it.
v1::GetJobResponse MakeJob(uint64_t id, const std::string& name, v1::JobState state);

}  // namespace muster::cli::testing
