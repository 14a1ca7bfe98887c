// Programs that people run beside ranks (exec_service.proto): the person's side.
#pragma once

#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "controller/api/calls/service_call.h"
#include "controller/api/calls/stream_watch.h"
#include "controller/api/streams/exec_sessions.h"
#include "controller/engine/engine.h"
#include "muster/v1/exec_service.grpc.pb.h"

namespace muster::controller {

class ExecService final : public v1::ExecService::CallbackService {
 public:
  // All references outlive the service and its calls.
  ExecService(Engine& engine, CallGate& gate, ExecSessions& sessions)
      : engine_(engine), gate_(gate), sessions_(sessions), watch_(gate.patience()) {}

  // Ends what is open with UNAVAILABLE; to be called before the gRPC server shuts down.
  void Stop() MUSTER_EXCLUDES(mutex_);

  grpc::ServerBidiReactor<v1::ExecRequest, v1::ExecOutput>* Exec(
      grpc::CallbackServerContext* context) override;

 private:
  static constexpr size_t kMostCalls = 256;

  // So that Stop ends it; refused when there are too many, or no more.
  absl::Status KeepUntilStop(const std::shared_ptr<PersonExec>& call) MUSTER_EXCLUDES(mutex_);

  Engine& engine_;
  CallGate& gate_;
  ExecSessions& sessions_;
  StreamWatch watch_;
  Mutex mutex_;
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<PersonExec>> calls_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::controller
