// Programs that people run beside ranks (exec_service.proto): the person's side.
#pragma once

#include "controller/api/calls/kept_streams.h"
#include "controller/api/calls/service_call.h"
#include "controller/api/calls/stream_watch.h"
#include "controller/api/streams/exec_sessions.h"
#include "controller/engine/engine.h"
#include "muster/v1/exec_service.grpc.pb.h"

namespace muster::controller {

class ExecService final : public v1::ExecService::CallbackService {
 public:
  // All references outlive the service and its calls.
  ExecService(Engine& engine, CallGate& gate, ExecSessions& sessions);

  // Ends what is open with UNAVAILABLE; to be called before the gRPC server shuts down.
  void Stop();

  grpc::ServerBidiReactor<v1::ExecRequest, v1::ExecOutput>* Exec(
      grpc::CallbackServerContext* context) override;

 private:
  Engine& engine_;
  CallGate& gate_;
  ExecSessions& sessions_;
  StreamWatch watch_;
  KeptStreams<ClientExecStream> calls_;
};

}  // namespace muster::controller
