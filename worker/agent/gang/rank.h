// One rank from its start until everything it started is gone: process, link, logs, checkpoints on
// their way out, and the steps that end it. Lives on the event loop; what it means for others goes
// to its RankHost.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/fs/file_system.h"
#include "common/metrics/metric_families.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/agent/base/event_loop.h"
#include "worker/agent/base/rank_key.h"
#include "worker/agent/base/side_threads.h"
#include "worker/agent/command/command_checkpoints.h"
#include "worker/agent/command/command_socket.h"
#include "worker/agent/command/rank_socket.h"
#include "worker/agent/container/containers.h"
#include "worker/agent/container/rank_container.h"
#include "worker/agent/device/energy_meter.h"
#include "worker/agent/gang/cpu_claims.h"
#include "worker/agent/gang/rank_exec_context.h"
#include "worker/agent/gang/supervisor_rules.h"
#include "worker/agent/process/child_processes.h"
#include "worker/agent/process/process_scan.h"
#include "worker/agent/process/rank_cgroup.h"
#include "worker/agent/process/rank_process.h"
#include "worker/agent/telemetry/log_tailer.h"
#include "worker/agent/telemetry/metrics_intake.h"
#include "worker/agent/telemetry/spool.h"

namespace muster::worker {

class Rank;

// What a rank asks of the one that holds it. Called from the loop; must not destroy the rank in the
// call.
class RankHost {
 public:
  virtual ~RankHost() = default;
  virtual void OnRankEvent(v1::RankEvent event) = 0;
  virtual void OnCheckpointEvent(v1::CheckpointEvent event) = 0;
  virtual void OnStoreLine(Rank& rank, StoreLine line) = 0;
  virtual void OnPhaseChange() = 0;
  // Called once, when processes of the rank survive SIGKILL; the host sets the event's kind. From
  // then on the rank publishes nothing.
  virtual void OnUnkillable(v1::RankEvent event) = 0;
  virtual bool LeaseAllowsPublish() = 0;
  // Nothing of a job that has this one rank writes under its root any more, nor can another attempt
  // have begun. `done` comes on a later turn, also when the root's file system hangs.
  virtual void GiveBackOffers(const std::string& job_root, std::function<void()> done) = 0;
  // Where commands' checkpoints are copied.
  virtual SideThreads& Side() = 0;
  // Some rank here has a container, is about to get one, or waits for its removal.
  virtual bool HasContainers() = 0;
  // A process that the agent inherited is known to be of a rank beside this one.
  virtual bool IsOfAnother(const RankKey& key, pid_t orphan) = 0;
  // After its EXITED event. `silent`: it wrote nothing to its logs. The host may destroy it once
  // the call has returned.
  virtual void OnGone(const RankKey& key, bool silent) = 0;
};

// What every rank of this agent shares; all of it outlives the ranks.
struct RankDeps {
  EventLoop& loop;
  FileSystem& fs;
  Spool& spool;
  MetricFamilies& families;
  ChildProcesses& children;
  Containers& containers;
  const EnergyMeter& energy;
  absl::Duration kill_patience;  // from SIGKILL until it is called unkillable
  absl::Duration path_patience;  // with what touches a path that the job names
  RankHost& host;
};

struct RankPlan {
  RankKey key() const { return MakeRankKey(fence, rank); }

  v1::Fence fence;
  uint32_t rank = 0;
  std::vector<uint32_t> slots;
  std::string folder;
  RankCommand command;
  absl::Duration controller_lost_timeout;
  bool is_command = false;                // any program, not the trainer
  bool is_alone = false;                  // the gang has no other rank
  UniqueFd held_port;                     // of the gang, while its rank 0 lives
  std::unique_ptr<CommandSocket> socket;  // a command's
  std::string job_name;
  std::string checkpoint_root;
  CheckpointRoot root;                   // in which that lies
  std::vector<std::string> offer_roots;  // beneath which a command's offers lie
  std::string ranks_root;                // an offer root that contains this is not accepted
  CpuClaim cpus;                         // of this rank alone
  uint64_t memory_bytes = 0;             // it is ended when it holds more; 0: no limit
  std::unique_ptr<RankCgroup> cgroup;    // where the agent can make any
  std::optional<ContainerPlan> container;
};

class Rank {
 public:
  // Takes over the process that was started by the plan's command and reports STARTED, or RUNNING
  // of a command; of one in a podman container RUNNING comes when its program runs.
  Rank(const RankDeps& deps, RankPlan plan, StartedProcess process);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  const RankPlan& plan() const { return plan_; }
  RankKey key() const { return plan_.key(); }
  // It has finished a step, so its rendezvous is behind it.
  bool running() const { return running_; }

  void FillStatus(v1::RankStatus& status) const;
  // FAILED_PRECONDITION: nothing can be run beside it now, and why. RESOURCE_EXHAUSTED: no
  // descriptor is left.
  absl::StatusOr<RankExecContext> ExecContext(bool terminal, std::shared_ptr<RankCgroup> cgroup);
  // Begins to end it, or hastens an end that has begun.
  void Stop(StopRequest request);
  // The lease may hold again: lets a checkpoint go that waits for it.
  void TryPublish();
  // Ends it when it holds more memory than it was given, where no cgroup does, and gives up a
  // checkpoint whose files do not answer. Call about once a second.
  void Check();
  // The process is this rank's, by its cgroup or by what it carries.
  bool Owns(pid_t process) const;
  void OnCheckpointAck(int64_t step, const std::string& error);
  void Reply(const StoreReplyLine& reply) { Tell(reply); }

 private:
  void Tell(const AgentLine& line);
  void OnLine(RankLine line);
  // A command's: what is no good is answered, not punished.
  void OnCommandLine(CommandSocket::ConnectionId from, RankLine line);
  void Offer(CommandSocket::ConnectionId from, const CheckpointLine& line);
  void On(const HelloLine& line);
  void On(MetricsLine& line);  // adds what the agent knows
  void SpoolMetrics(const MetricsLine& line);
  void On(const ProgressLine& line);
  void On(const CheckpointLine& line);
  void OnBrokenLink(const absl::Status& status);
  void TakeStopStep();
  void CheckMemory();
  void NoteOutOfMemory();  // after its end
  void AddMemoryNeed();    // to what is said of that
  void KillAll();          // all of the rank that can be reached at once
  void OnKillInVain();
  void SayUnkillable(const std::string& what);
  void PumpLogs();
  void ClearRemains();  // after the leader's end, until nothing of the rank lives
  // The leader died of the wish to save, and its grace lasts: what it started is asked, not killed.
  bool RestMaySave() const;
  std::vector<ProcessId> FindRemains();
  bool HoldsCgroups() const;  // its own, or one of a program beside it, has a process
  bool HasExecs() const;      // programs of `muster exec` that are not over
  void OnCleared();           // after that, and after the removal of a podman container
  void FinishWhenSaved();     // after that, until what a command offered is published
  void Finish();
  void ExportMetrics(const MetricsLine& line);
  void ReportRunning();
  v1::RankEvent MakeEvent(v1::RankEvent::Kind kind) const;

  const RankDeps deps_;
  const RankPlan plan_;
  const std::unique_ptr<RankProcess> process_;
  std::vector<std::weak_ptr<RankCgroup>> exec_cgroups_;  // of programs that run beside it
  std::vector<std::weak_ptr<const void>> execs_;         // RankExecContext::unfinished
  const std::optional<double> joules_at_start_;          // of its GPUs; nothing: not counted
  std::optional<RankSocket> link_;                       // of a trainer
  std::unique_ptr<RankContainer> container_;             // of a command with an image
  std::unique_ptr<CommandCheckpoints> checkpoints_;      // of a command's rank 0
  CommandSocket::ConnectionId answer_to_ = 0;            // while one line is taken; 0: all
  uint64_t command_seq_ = 0;                             // of its metrics
  LogTailer logs_;
  EventLoop::TimerId log_timer_ = 0;
  EventLoop::TimerId stop_timer_ = 0;
  EventLoop::TimerId clear_timer_ = 0;
  EventLoop::TimerId kill_timer_ = 0;  // from the first SIGKILL

  FirstStep first_step_;
  bool running_ = false;
  int64_t step_ = 0;
  ProgressLine progress_;
  MetricsIntake metrics_;  // of a trainer
  std::map<std::string, double> latest_;
  std::optional<int64_t> waiting_publish_;

  std::optional<StopRequest> stop_;
  absl::Duration stop_began_;
  StopAction stop_taken_ = StopAction::kWait;
  std::string memory_need_;  // as it was estimated, in words; empty: nothing was said
  ExitFacts facts_;
  bool ended_ = false;  // the leader has
  bool rest_told_ = false;
  bool unkillable_ = false;
  bool finishing_ = false;  // all dead; a checkpoint is still on its way
  bool finished_ = false;
  // Outlived by what side threads give back.
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::worker
