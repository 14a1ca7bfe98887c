// What the page asks beyond JobService (page_service.proto). Changes nothing.
#pragma once

#include "controller/api/calls/service_call.h"
#include "controller/engine/engine.h"
#include "controller/metrics/metrics_reader.h"
#include "muster/v1/page_service.grpc.pb.h"

namespace muster::controller {

class PageService final : public v1::PageService::CallbackService {
 public:
  // All references outlive the service, and `metrics` answers what it was asked before it goes.
  PageService(Engine& engine, MetricsReader& metrics, CallGate& gate)
      : engine_(engine), metrics_(metrics), gate_(gate) {}

  grpc::ServerUnaryReactor* FindJobs(grpc::CallbackServerContext* context,
                                     const v1::FindJobsRequest* request,
                                     v1::FindJobsResponse* response) override;
  grpc::ServerUnaryReactor* ReadLogs(grpc::CallbackServerContext* context,
                                     const v1::ReadLogsRequest* request,
                                     v1::ReadLogsResponse* response) override;

 private:
  Engine& engine_;
  MetricsReader& metrics_;
  CallGate& gate_;
};

}  // namespace muster::controller
