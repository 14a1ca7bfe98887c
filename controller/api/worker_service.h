// What agents and the controller say to one another (worker_service.proto), on gRPC's callback API.
#pragma once

#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "controller/api/bulk_stream.h"
#include "controller/api/call.h"
#include "controller/api/control_stream.h"
#include "controller/engine/engine.h"
#include "controller/engine/metrics_ingest.h"
#include "muster/v1/worker_service.grpc.pb.h"

namespace muster::controller {

class WorkerService final : public v1::WorkerService::CallbackService {
 public:
  // All references outlive the service and its streams.
  WorkerService(Engine& engine, MetricsIngest& ingest, CallGate& gate)
      : engine_(engine), ingest_(ingest), gate_(gate) {}

  // Ends all streams with UNAVAILABLE, new ones too; to be called before the gRPC server shuts
  // down.
  void Stop() MUSTER_EXCLUDES(mutex_);

  grpc::ServerBidiReactor<v1::WorkerMessage, v1::ControllerMessage>* Control(
      grpc::CallbackServerContext* context) override;
  grpc::ServerBidiReactor<v1::BulkBatch, v1::BulkAck>* Bulk(
      grpc::CallbackServerContext* context) override;

 private:
  absl::Status Allow(grpc::CallbackServerContext* context);

  Engine& engine_;
  MetricsIngest& ingest_;
  CallGate& gate_;
  Mutex mutex_;
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<ControlStream>> controls_ MUSTER_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<BulkStream>> bulks_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::controller
