// What people ask of the controller (job_service.proto), on gRPC's callback API: check, call,
// convert. Decides nothing.
#pragma once

#include <memory>
#include <string>

#include "common/base/clock.h"
#include "controller/api/call.h"
#include "controller/api/stream_pump.h"
#include "controller/engine/engine.h"
#include "controller/engine/metrics_ingest.h"
#include "muster/v1/job_service.grpc.pb.h"

namespace muster::controller {

class JobService final : public v1::JobService::CallbackService {
 public:
  // All references outlive the service. `checkpoint_root`: for specs that name no url.
  JobService(Engine& engine, MetricsIngest& ingest, CallGate& gate, Clock& clock,
             std::string checkpoint_root);

  // Ends what is open with UNAVAILABLE; to be called before the gRPC server shuts down.
  void Stop() { pump_.Stop(); }

  grpc::ServerUnaryReactor* GetVersion(grpc::CallbackServerContext* context,
                                       const v1::GetVersionRequest* request,
                                       v1::GetVersionResponse* response) override;
  grpc::ServerUnaryReactor* Submit(grpc::CallbackServerContext* context,
                                   const v1::SubmitRequest* request,
                                   v1::SubmitResponse* response) override;
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
  grpc::ServerUnaryReactor* VerifyCheckpoint(grpc::CallbackServerContext* context,
                                             const v1::VerifyCheckpointRequest* request,
                                             v1::VerifyCheckpointResponse* response) override;
  grpc::ServerUnaryReactor* ListWorkers(grpc::CallbackServerContext* context,
                                        const v1::ListWorkersRequest* request,
                                        v1::ListWorkersResponse* response) override;
  grpc::ServerUnaryReactor* CordonWorker(grpc::CallbackServerContext* context,
                                         const v1::CordonWorkerRequest* request,
                                         v1::CordonWorkerResponse* response) override;
  grpc::ServerUnaryReactor* ListProjects(grpc::CallbackServerContext* context,
                                         const v1::ListProjectsRequest* request,
                                         v1::ListProjectsResponse* response) override;
  grpc::ServerUnaryReactor* SetProject(grpc::CallbackServerContext* context,
                                       const v1::SetProjectRequest* request,
                                       v1::SetProjectResponse* response) override;
  grpc::ServerUnaryReactor* GetGoodput(grpc::CallbackServerContext* context,
                                       const v1::GetGoodputRequest* request,
                                       v1::GetGoodputResponse* response) override;

 private:
  absl::Status FillJob(const v1::GetJobRequest& request, v1::GetJobResponse& response);

  Engine& engine_;
  MetricsIngest& ingest_;
  CallGate& gate_;
  Clock& clock_;
  const std::string checkpoint_root_;
  StreamPump pump_;
};

}  // namespace muster::controller
