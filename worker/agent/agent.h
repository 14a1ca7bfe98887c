// muster-worker's composition root: builds the parts, connects them, and brings them to an orderly
// stop. No rules here.
//
// All decisions are made on the thread that calls Run. Nothing that a job names is touched there:
// that is for side threads, which also start the ranks, and heartbeats do not depend on it.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/daemon/data_dir_lock.h"
#include "common/fs/file_system.h"
#include "common/metrics/http_server.h"
#include "common/metrics/metric_families.h"
#include "common/tls/tls_watcher.h"
#include "worker/agent/agent_config.h"
#include "worker/agent/agent_metrics.h"
#include "worker/agent/base/event_loop.h"
#include "worker/agent/checkpoint/checkpoint_executor.h"
#include "worker/agent/checkpoint/root_watcher.h"
#include "worker/agent/connection/bulk_sender.h"
#include "worker/agent/connection/heartbeat_keeper.h"
#include "worker/agent/connection/session.h"
#include "worker/agent/container/tool_run.h"
#include "worker/agent/data/data_checker.h"
#include "worker/agent/device/energy_meter.h"
#include "worker/agent/device/nvml.h"
#include "worker/agent/exec/rank_execs.h"
#include "worker/agent/folders/upload_fetcher.h"
#include "worker/agent/gang/assignment_log.h"
#include "worker/agent/gang/supervisor.h"
#include "worker/agent/identity/identity_file.h"
#include "worker/agent/join/certificate_renewer.h"
#include "worker/agent/preemption/notice_watcher.h"
#include "worker/agent/telemetry/spool.h"

namespace muster::worker {

class Agent final : private SessionHandler, private SupervisorSink {
 public:
  // Takes the data folder, kills what an earlier agent left there, binds the HTTP port. Errors name
  // what is wrong: the folder is in use or cannot be written, the token cannot be read, the port is
  // taken. `clock` and `fs` outlive it.
  static absl::StatusOr<std::unique_ptr<Agent>> Create(const AgentConfig& config, Clock& clock,
                                                       FileSystem& fs);
  ~Agent() override;

  // Until BeginStop has done its work: OK. Or until the controller refuses this agent for good:
  // why.
  absl::Status Run();

  // On the loop (Post it to loop().mailbox() from elsewhere). Gives notice, lets the ranks save
  // within the grace, also when the controller goes meanwhile, reports, and ends Run. A second call
  // kills them at once.
  void BeginStop(const std::string& reason);

  EventLoop& loop() { return *loop_; }
  const std::string& metrics_address() const { return http_->address(); }

 private:
  Agent(const AgentConfig& config, Clock& clock, FileSystem& fs)
      : config_(config), clock_(clock), fs_(fs) {}
  absl::Status Build();
  absl::Status BuildTls();
  absl::Status BuildHttp();
  absl::Status BuildHello();
  absl::Status BeginLife();
  absl::Status WriteEndpoints();
  std::string DataPath(absl::string_view name) const;

  void FillHello(v1::Hello& hello) override;
  std::vector<v1::RankStatus> RankStatuses() override { return supervisor_->Statuses(); }
  std::optional<v1::WorkerUse> Use() override { return metrics_->use(); }
  std::optional<v1::RootReport> Roots() override;
  std::optional<v1::DataReport> Data() override;
  void OnSessionUp(const v1::Welcome& welcome) override;
  void OnSessionDown() override;
  void OnControllerMessage(const v1::ControllerMessage& message) override;
  void OnLeaseRenewed() override { supervisor_->OnLeaseRenewed(); }
  void OnRefused(absl::Status status) override;

  void SendEvent(v1::WorkerMessage event) override { session_->SendEvent(std::move(event)); }
  void SendMessage(v1::WorkerMessage message) override {
    session_->SendMessage(std::move(message));
  }
  void HeartbeatNow() override { session_->HeartbeatNow(); }
  bool LeaseAllowsPublish() override { return session_->LeaseAllowsPublish(); }
  void OnRanksChanged() override;
  void Unfit(const std::string& why) override;
  void FitAgain() override;

  // True when the assignment is new; else it is answered again where it has been answered.
  bool TakeAssignment(uint64_t outbox_seq);
  void Acknowledge(uint64_t outbox_seq, const std::string& refusal);
  void OnCheckpointOutcome(CheckpointOutcome outcome);
  void OnRootsChanged();
  void OnDataChanged();
  void CheckTrainer();
  void WarnOfTrainer(const ToolResult& result);
  void Tick();
  void StartSession();
  // The cloud takes the machine away, or does so no more: the ranks save and leave, and nothing new
  // comes; the agent itself stays.
  void OnNoticeWord(const NoticeWord& word);
  void ApproveOnceEmpty();
  // Tells the controller that ranks here are to save and leave within `time`, of which a part is
  // kept back for those that do not.
  void GiveNotice(const std::string& reason, absl::Duration time);
  void SetLeaveBy(absl::Duration time, const std::string& why);
  void AskToSave();
  // A connection of its own.
  std::shared_ptr<grpc::Channel> ControllerChannel() const;
  void SayFitAgain();
  void EndWhenFlushed(absl::Duration patience);

  AgentConfig config_;
  Clock& clock_;
  FileSystem& fs_;
  std::unique_ptr<DataDirLock> lock_;
  std::unique_ptr<TlsWatcher> tls_;              // null: nothing is encrypted
  std::unique_ptr<TlsWatcher> http_tls_;         // null: the HTTP port is not
  std::unique_ptr<CertificateRenewer> renewer_;  // null: somebody else renews it
  std::string token_;
  v1::Hello hello_;
  std::optional<IdentityFile> identity_;
  ContainerRuntimes runtimes_;
  std::unique_ptr<Nvml> nvml_;
  std::unique_ptr<EnergyMeter> energy_;
  std::unique_ptr<EventLoop> loop_;
  MetricFamilies families_{metric::kWorkerDroppedTotal};
  std::unique_ptr<AgentMetrics> metrics_;
  std::atomic<bool> connected_ = false;  // read by the HTTP threads
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<Spool> spool_;
  std::unique_ptr<UploadFetcher> uploads_;
  std::unique_ptr<Supervisor> supervisor_;
  std::unique_ptr<HeartbeatKeeper> keeper_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<BulkSender> bulk_;
  std::unique_ptr<RankExecs> execs_;
  std::unique_ptr<CheckpointExecutor> checkpoints_;
  std::unique_ptr<RootWatcher> roots_;
  bool roots_said_ = false;                 // in this session, as they are
  std::unique_ptr<ToolRun> trainer_check_;  // null: it is over
  std::unique_ptr<DataChecker> data_;       // null: there is no muster-data
  bool data_said_ = false;                  // likewise
  AssignmentLog assignments_;
  bool unfit_ = false;  // as it said last
  bool stopping_ = false;
  std::unique_ptr<NoticeWatcher> notices_;  // null: there is no source of notices
  bool session_started_ = false;
  std::optional<MachineNotice> machine_leaves_;  // the notice that stands
  absl::Duration leave_until_;                   // since boot, while it stops or the machine leaves
  EventLoop::TimerId leave_timer_ = 0;
  bool awaits_controller_ = false;  // while it stops: there are ranks whose end is to be told
  bool flushing_ = false;
  absl::Status refused_;
};

}  // namespace muster::worker
