// The composition root of musterd: builds the parts, starts them in order, and stops them in the
// other. No rules.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/daemon/data_dir_lock.h"
#include "common/metrics/http_server.h"
#include "common/metrics/metric_families.h"
#include "common/rpc/handshake_failures.h"
#include "common/tls/tls_watcher.h"
#include "controller/access/access_control.h"
#include "controller/api/access_service.h"
#include "controller/api/admin_service.h"
#include "controller/api/calls/service_call.h"
#include "controller/api/enroll_service.h"
#include "controller/api/exec_service.h"
#include "controller/api/job_service.h"
#include "controller/api/page_service.h"
#include "controller/api/upload_service.h"
#include "controller/api/worker_service.h"
#include "controller/autoscale/autoscaler.h"
#include "controller/backup/backup_maker.h"
#include "controller/config.h"
#include "controller/engine/engine.h"
#include "controller/enroll/enroller.h"
#include "controller/metrics/metrics_ingest.h"
#include "controller/rpc/rpc_server.h"
#include "controller/uploads/upload_store.h"
#include "controller/web/gateway/json_gateway.h"
#include "controller/web/web_pages.h"

namespace muster::controller {

class Server {
 public:
  // Starts everything; on return all ports serve and endpoints.json is written. `on_fatal` runs, on
  // any thread, when a database can no longer be trusted: the process must end and start anew.
  // `clock` outlives the server. Statuses: as DataDirLock::Take, LoadOrMakeToken,
  // AccessControl::Open, Engine::Open, MetricsIngest::Open, Enroller::Open, RpcServer::Start,
  // HttpServer::Create.
  static absl::StatusOr<std::unique_ptr<Server>> Start(
      const Config& config, Clock& clock, std::function<void(const absl::Status&)> on_fatal);
  ~Server();  // stops

  // Ends streams, finishes calls under way, then stops the loops and closes the databases.
  // Idempotent.
  void Stop();

  const std::string& grpc_address() const { return people_->address(); }
  const std::string& worker_address() const { return workers_->address(); }
  const std::string& http_address() const { return http_->address(); }
  uint64_t term() const { return engine_->snapshot()->term; }

 private:
  Server(Config config, Clock& clock);

  absl::Status OpenDatabases(std::function<void(const absl::Status&)> on_fatal);
  absl::Status OpenAutoscaler();
  absl::Status OpenUploads();
  WorkersToCome NewWorkers();
  absl::Status OpenEnrollment(std::function<void(const absl::Status&)> on_fatal);
  void OpenBackups();
  void MakeWebPages();
  absl::Status OpenPorts();
  absl::Status OpenHttp();
  absl::Status WriteEndpoints();
  std::vector<JobEnd> EndsOf(const std::vector<uint64_t>& jobs) const;  // as MetricsIngestOptions
  // The uploads that jobs refer to which have not ended.
  std::map<std::string, absl::Duration> ReferredUploads() const;
  // Who has sent it since the start, or may read a job that runs in it.
  bool MayUseUpload(const Caller& caller, const std::string& sha256) const;

  const Config config_;
  Clock& clock_;
  std::string token_;  // of people
  MetricFamilies families_;
  std::atomic<uint64_t> http_displaced_ = 0;
  std::atomic<bool> ready_ = false;
  bool stopped_ = false;
  // Destroyed from the last to the first.
  std::optional<DataDirLock> lock_;
  std::unique_ptr<TlsWatcher> tls_;  // null: nothing is encrypted
  std::unique_ptr<AccessControl> access_;
  std::unique_ptr<CallGate> gate_;         // of people
  std::unique_ptr<CallGate> worker_gate_;  // of agents
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<MetricsIngest> ingest_;
  std::unique_ptr<Autoscaler> autoscaler_;  // null: nothing is scaled
  std::unique_ptr<UploadStore> uploads_;
  std::unique_ptr<BackupMaker> backups_;  // null: none are made
  std::unique_ptr<AdminService> admin_service_;
  std::unique_ptr<UploadThread> upload_thread_;
  std::unique_ptr<UploadService> people_uploads_;
  std::unique_ptr<UploadService> agent_uploads_;
  std::unique_ptr<Enroller> enroller_;
  std::unique_ptr<EnrollThread> enroll_thread_;
  std::unique_ptr<EnrollService> enroll_service_;
  std::unique_ptr<RenewService> renew_service_;
  ExecSessions exec_sessions_;
  std::unique_ptr<JobService> job_service_;
  std::unique_ptr<ExecService> exec_service_;
  std::unique_ptr<PageService> page_service_;
  std::unique_ptr<AccessService> access_service_;
  std::unique_ptr<WorkerService> worker_service_;
  std::unique_ptr<WebPages> web_;
  std::unique_ptr<RpcServer> people_;
  std::unique_ptr<RpcServer> workers_;
  std::unique_ptr<HandshakeFailures> handshake_failures_;  // null: nothing is encrypted
  std::unique_ptr<JsonGateway> gateway_;
  std::unique_ptr<HttpServer> http_;
};

}  // namespace muster::controller
