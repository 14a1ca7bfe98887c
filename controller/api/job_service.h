// What people ask of the controller (job_service.proto), on gRPC's callback API: check, call,
// convert. Decides nothing.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "controller/api/calls/kept_streams.h"
#include "controller/api/calls/known_jobs.h"
#include "controller/api/calls/service_call.h"
#include "controller/api/calls/stream_watch.h"
#include "controller/api/calls/submit_check.h"
#include "controller/api/streams/stream_pump.h"
#include "controller/api/streams/submit_stream.h"
#include "controller/engine/engine.h"
#include "controller/metrics/metrics_reader.h"
#include "muster/v1/job_service.grpc.pb.h"

namespace muster::controller {

class JobService final : public v1::JobService::CallbackService {
 public:
  // Whether the uploaded folder of this SHA-256 is there, for `caller` to use; if so it is kept for
  // a while. Null: for a job that runs in it already.
  using HasUpload = std::function<bool(const std::string& sha256, const Caller* caller)>;
  // All references outlive the service. `checkpoint_root`: for specs that name no url. Without
  // `has_upload` there are no uploads.
  JobService(Engine& engine, MetricsReader& metrics, CallGate& gate, Clock& clock,
             std::string checkpoint_root, HasUpload has_upload = nullptr,
             WorkersToCome workers_to_come = {});

  // Ends what is open with UNAVAILABLE; to be called before the gRPC server shuts down.
  void Stop();

  grpc::ServerUnaryReactor* GetVersion(grpc::CallbackServerContext* context,
                                       const v1::GetVersionRequest* request,
                                       v1::GetVersionResponse* response) override;
  grpc::ServerUnaryReactor* Submit(grpc::CallbackServerContext* context,
                                   const v1::SubmitRequest* request,
                                   v1::SubmitResponse* response) override;
  grpc::ServerBidiReactor<v1::SubmitJobsRequest, v1::SubmitJobsResponse>* SubmitJobs(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* context,
                                     const v1::ListJobsRequest* request,
                                     v1::ListJobsResponse* response) override;
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context,
                                   const v1::GetJobRequest* request,
                                   v1::GetJobResponse* response) override;
  grpc::ServerUnaryReactor* CancelJob(grpc::CallbackServerContext* context,
                                      const v1::CancelJobRequest* request,
                                      v1::CancelJobResponse* response) override;
  grpc::ServerUnaryReactor* ControlJob(grpc::CallbackServerContext* context,
                                       const v1::ControlJobRequest* request,
                                       v1::ControlJobResponse* response) override;
  grpc::ServerUnaryReactor* UpdateJob(grpc::CallbackServerContext* context,
                                      const v1::UpdateJobRequest* request,
                                      v1::UpdateJobResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchJobResponse>* WatchJob(
      grpc::CallbackServerContext* context, const v1::WatchJobRequest* request) override;
  grpc::ServerWriteReactor<v1::StreamEventsResponse>* StreamEvents(
      grpc::CallbackServerContext* context, const v1::StreamEventsRequest* request) override;
  grpc::ServerWriteReactor<v1::StreamLogsResponse>* StreamLogs(
      grpc::CallbackServerContext* context, const v1::StreamLogsRequest* request) override;
  grpc::ServerUnaryReactor* QueryMetrics(grpc::CallbackServerContext* context,
                                         const v1::QueryMetricsRequest* request,
                                         v1::QueryMetricsResponse* response) override;
  grpc::ServerUnaryReactor* ListCheckpoints(grpc::CallbackServerContext* context,
                                            const v1::ListCheckpointsRequest* request,
                                            v1::ListCheckpointsResponse* response) override;
  grpc::ServerUnaryReactor* GetCheckpoint(grpc::CallbackServerContext* context,
                                          const v1::GetCheckpointRequest* request,
                                          v1::GetCheckpointResponse* response) override;
  grpc::ServerUnaryReactor* VerifyCheckpoint(grpc::CallbackServerContext* context,
                                             const v1::VerifyCheckpointRequest* request,
                                             v1::VerifyCheckpointResponse* response) override;
  grpc::ServerUnaryReactor* ControlCheckpoint(grpc::CallbackServerContext* context,
                                              const v1::ControlCheckpointRequest* request,
                                              v1::ControlCheckpointResponse* response) override;
  grpc::ServerUnaryReactor* ListWorkers(grpc::CallbackServerContext* context,
                                        const v1::ListWorkersRequest* request,
                                        v1::ListWorkersResponse* response) override;
  grpc::ServerUnaryReactor* CordonWorker(grpc::CallbackServerContext* context,
                                         const v1::CordonWorkerRequest* request,
                                         v1::CordonWorkerResponse* response) override;
  grpc::ServerUnaryReactor* ForgetWorker(grpc::CallbackServerContext* context,
                                         const v1::ForgetWorkerRequest* request,
                                         v1::ForgetWorkerResponse* response) override;
  grpc::ServerUnaryReactor* ListProjects(grpc::CallbackServerContext* context,
                                         const v1::ListProjectsRequest* request,
                                         v1::ListProjectsResponse* response) override;
  grpc::ServerUnaryReactor* SetProject(grpc::CallbackServerContext* context,
                                       const v1::SetProjectRequest* request,
                                       v1::SetProjectResponse* response) override;
  grpc::ServerUnaryReactor* GetGoodput(grpc::CallbackServerContext* context,
                                       const v1::GetGoodputRequest* request,
                                       v1::GetGoodputResponse* response) override;
  grpc::ServerUnaryReactor* ExplainJob(grpc::CallbackServerContext* context,
                                       const v1::ExplainJobRequest* request,
                                       v1::ExplainJobResponse* response) override;

 private:
  void AddHints(const JobNeeds& needs, Explanation& explanation) const;
  // The job that is named, if the caller may do to it what they ask.
  absl::StatusOr<const Job*> FindFor(const Caller& caller, KnownJobs& jobs, const v1::JobRef& ref);
  // Likewise; NOT_FOUND: there is none.
  absl::StatusOr<const Checkpoint*> FindCheckpointFor(const Caller& caller, KnownJobs& jobs,
                                                      uint64_t id);
  // For OutStream::EndUnless.
  std::function<absl::Status()> StillAllowed(const Caller& caller, const std::string& project);
  absl::Status FillExplanation(const Caller& caller, const v1::ExplainJobRequest& request,
                               v1::ExplainJobResponse& response);
  absl::Status FillJob(const Caller& caller, const v1::GetJobRequest& request,
                       v1::GetJobResponse& response);

  Engine& engine_;
  MetricsReader& metrics_;
  CallGate& gate_;
  Clock& clock_;
  const std::string checkpoint_root_;
  const HasUpload has_upload_;
  const WorkersToCome workers_to_come_;
  StreamPump pump_;
  StreamWatch watch_;
  std::atomic<int> goodputs_ = 0;  // that are being answered, over all jobs
  KeptStreams<SubmitStream> submit_streams_;
};

}  // namespace muster::controller
