// What agents and the controller say to one another (worker_service.proto), on gRPC's callback API.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/base/mutex.h"
#include "common/rpc/peer_certificate.h"
#include "controller/api/calls/service_call.h"
#include "controller/api/calls/stream_watch.h"
#include "controller/api/streams/bulk_stream.h"
#include "controller/api/streams/control_stream.h"
#include "controller/api/streams/exec_sessions.h"
#include "controller/engine/engine.h"
#include "controller/metrics/metrics_ingest.h"
#include "muster/v1/worker_service.grpc.pb.h"

namespace muster::controller {

class WorkerService final : public v1::WorkerService::CallbackService {
 public:
  // Streams of one kind that may be open at once: twice the 10,000 workers that one controller is
  // meant for, since a reconnecting agent may hold two for a moment.
  static constexpr size_t kMaxStreams = 20'000;

  // Whether who shows this certificate (PEM) may have a stream. Any thread; must not block.
  using CertificateCheck = std::function<absl::Status(absl::string_view certificate)>;

  // All references outlive the service and its streams. `check` null: certificates are not asked.
  WorkerService(Engine& engine, MetricsIngest& ingest, CallGate& gate, ExecSessions& execs,
                size_t max_streams = kMaxStreams, CertificateCheck check = nullptr)
      : engine_(engine),
        ingest_(ingest),
        gate_(gate),
        exec_sessions_(execs),
        max_streams_(max_streams),
        check_certificate_(std::move(check)),
        watch_(gate.patience()) {}

  // Ends all streams with UNAVAILABLE, new ones too; to be called before the gRPC server shuts
  // down.
  void Stop() MUSTER_EXCLUDES(mutex_);
  // Ends the streams of agents whose certificate is for this name, with PERMISSION_DENIED.
  void CloseOf(const std::string& name) MUSTER_EXCLUDES(mutex_);

  grpc::ServerBidiReactor<v1::WorkerMessage, v1::ControllerMessage>* Control(
      grpc::CallbackServerContext* context) override;
  grpc::ServerBidiReactor<v1::BulkBatch, v1::BulkAck>* Bulk(
      grpc::CallbackServerContext* context) override;
  grpc::ServerBidiReactor<v1::ExecOutput, v1::ExecInput>* Exec(
      grpc::CallbackServerContext* context) override;

 private:
  template <typename Stream>
  struct Opened {
    std::weak_ptr<Stream> stream;
    PeerNames sender;
  };

  // Remembers the stream unless it may not be opened; then why not.
  template <typename Stream>
  absl::Status AdmitLocked(std::vector<Opened<Stream>>& streams,
                           const std::shared_ptr<Stream>& stream, PeerNames sender)
      MUSTER_REQUIRES(mutex_);
  // Hands a stream to gRPC, unless it may not be opened; `opened` is one of the lists below.
  template <typename Stream>
  auto* Open(std::shared_ptr<Stream> stream, std::vector<Opened<Stream>> WorkerService::*opened,
             grpc::CallbackServerContext& context) MUSTER_EXCLUDES(mutex_);
  // Of a stream that was admitted, so that CloseOf sees it: a revocation that came before has
  // changed what the check says.
  absl::Status CheckShown(const grpc::ServerContextBase& context) const;

  Engine& engine_;
  MetricsIngest& ingest_;
  CallGate& gate_;
  ExecSessions& exec_sessions_;
  const size_t max_streams_;
  const CertificateCheck check_certificate_;
  StreamWatch watch_;
  Mutex mutex_;
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  std::vector<Opened<ControlStream>> controls_ MUSTER_GUARDED_BY(mutex_);
  std::vector<Opened<BulkStream>> bulks_ MUSTER_GUARDED_BY(mutex_);
  std::vector<Opened<AgentExecStream>> execs_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::controller
