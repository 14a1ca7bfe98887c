// Programs that people run beside ranks (exec_service.proto): the person's side.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "controller/api/calls/caller_shares.h"
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
  static constexpr size_t kMaxCalls = 256;
  static constexpr size_t kMaxPerCaller = 8;

  struct Open {
    std::weak_ptr<ClientExecStream> call;
    CallerShares::Place place;
  };

  // So that Stop ends it; refused when there are too many, of `caller` or in all, or no more.
  absl::Status KeepUntilStop(const std::shared_ptr<ClientExecStream>& call,
                             const std::string& caller) MUSTER_EXCLUDES(mutex_);

  Engine& engine_;
  CallGate& gate_;
  ExecSessions& sessions_;
  StreamWatch watch_;
  Mutex mutex_;
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  CallerShares shares_ MUSTER_GUARDED_BY(mutex_){kMaxPerCaller};
  std::vector<Open> open_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::controller
