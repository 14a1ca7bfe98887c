// Holds this worker's ranks: starts them as assigned, ends them as told, and passes on what they
// report.
//
// Lives on the event loop. It decides by supervisor_rules.h; it knows no gRPC: what leaves goes to
// the SupervisorSink.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/fs/file_system.h"
#include "common/metrics/metric_families.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/agent/base/event_loop.h"
#include "worker/agent/base/path_watch.h"
#include "worker/agent/base/side_threads.h"
#include "worker/agent/base/trash.h"
#include "worker/agent/container/containers.h"
#include "worker/agent/folders/finished_rank_folders.h"
#include "worker/agent/folders/rank_folders.h"
#include "worker/agent/folders/work_folders.h"
#include "worker/agent/gang/gang_start.h"
#include "worker/agent/gang/rank.h"
#include "worker/agent/gang/rank_planner.h"
#include "worker/agent/gang/rank_starts.h"
#include "worker/agent/gang/store_relay.h"
#include "worker/agent/gang/supervisor_options.h"
#include "worker/agent/gang/supervisor_rules.h"
#include "worker/agent/process/child_processes.h"
#include "worker/agent/process/process_scan.h"
#include "worker/agent/telemetry/spool.h"

namespace muster::worker {

// Where the supervisor's words go. Called from the loop.
class SupervisorSink {
 public:
  virtual ~SupervisorSink() = default;
  virtual void SendEvent(v1::WorkerMessage event) = 0;      // kept until acknowledged
  virtual void SendMessage(v1::WorkerMessage message) = 0;  // now or never
  virtual void HeartbeatNow() = 0;
  virtual bool LeaseAllowsPublish() = 0;
  virtual void OnRanksChanged() = 0;
  // This machine should be drained: why.
  virtual void Unfit(const std::string& why) = 0;
  // Nothing of what was said by Unfit holds any more.
  virtual void FitAgain() = 0;
};

struct SupervisorDeps {
  EventLoop& loop;
  FileSystem& fs;
  Spool& spool;
  MetricFamilies& families;
  const EnergyMeter& energy;
  SupervisorSink& sink;
  FetchUpload fetch_upload;
};

class Supervisor final : private RankHost {
 public:
  Supervisor(const SupervisorDeps& deps, SupervisorOptions options);
  ~Supervisor() override;

  // Kills every process that an earlier agent of this data folder left, by what it carries or the
  // cgroup that it is in, and waits until they are gone; then adopts their folders' logs. What does
  // not die holds the whole worker back, as unfit, until it does: nobody knows any more which slots
  // it holds. Blocks; call before the loop runs.
  absl::Status ClearLeftovers();
  bool has_leftovers() const { return !leftovers_.empty(); }

  // OK: the ranks will run, or their failure to start will be reported as an event. Else why the
  // assignment is refused.
  absl::Status Start(const v1::StartRanks& start, uint64_t session_term);
  // Always taken: ranks that are not here have been reported already, and those that come later are
  // fenced.
  void Stop(const v1::StopRanks& stop);
  void KillStale(const v1::Welcome::StaleRank& stale);
  void StopAll(const StopRequest& request);
  // No StartRanks is taken any more, until TakeWork.
  void Drain() { draining_ = true; }
  void TakeWork() { draining_ = false; }

  void OnStoreReply(const v1::StoreReply& reply) { store_.OnReply(reply); }
  void OnCheckpointAck(const v1::CheckpointAck& ack);
  // Metrics, logs and folders of earlier ranks are of jobs that the controller does not know, and
  // whose numbers it gives to others: they go. Call before those start.
  void DropUndelivered(absl::string_view reason);
  void OnSessionUp(uint64_t term) { store_.SessionUp(term); }
  void OnSessionDown() { store_.SessionDown(); }
  void OnLeaseRenewed();
  // Ends ranks whose controller has been away for longer than their job allows; sweeps what waits;
  // removes folders that are done. Call about once a second.
  void Tick(absl::Duration controller_away);

  // For a program beside that rank. NOT_FOUND: no such rank is here; else as Rank::ExecContext.
  absl::StatusOr<RankExecContext> ExecContextOf(const v1::Fence& fence, uint32_t rank,
                                                bool terminal);

  // What else the agent starts must be known there, too, or is taken for what a rank left behind.
  ChildProcesses& children() { return children_; }

  std::vector<v1::RankStatus> Statuses() const;
  std::set<uint32_t> BusySlots() const;
  bool empty() const;
  // Whether only ranks that SIGKILL did not end and starts that do not come to an end are left.
  // True when nothing is left. An agent that stops waits for nothing then.
  bool only_unkillable_left() const;

 private:
  void OnRankEvent(v1::RankEvent event) override;
  void OnCheckpointEvent(v1::CheckpointEvent event) override;
  void OnStoreLine(Rank& rank, StoreLine line) override;
  SideThreads& Side() override { return bulk_; }
  bool HasContainers() override;
  bool IsOfAnother(const RankKey& key, pid_t orphan) override;
  void OnPhaseChange() override { deps_.sink.HeartbeatNow(); }
  void OnUnkillable(v1::RankEvent event) override;
  bool LeaseAllowsPublish() override { return deps_.sink.LeaseAllowsPublish(); }
  void GiveBackOffers(const std::string& job_root, std::function<void()> done) override;
  void OnGone(const RankKey& key, bool silent) override;

  void Fetch(const RankKey& key, const v1::Fence& fence, const CommandSettings& command);
  void StartOne(const v1::StartRanks& start, const v1::StartRanks::Rank& rank,
                absl::StatusOr<RankPlan> plan);
  // Whether something is left here of an earlier rank with the job, attempt and number of one of
  // these. No controller starts one twice, but one that was restored from a backup does.
  bool HasRemainsOf(const v1::StartRanks& start) const;
  void FindResume(const RankKey& key, const v1::StartRanks& start);
  void RemoveLeftHalfWritten(const v1::StartRanks& start);
  void FindPaths(const RankKey& key, const GangStart& gang);
  void OnGangReady(GangStart gang, const absl::Status& status);
  void OnStarted(RankStarts::Starting starting, absl::StatusOr<StartedProcess> process);
  void OnNotStarted(const v1::Fence& fence, uint32_t rank, const absl::Status& why);
  void ReportNeverRan(const v1::Fence& fence, uint32_t rank, const ExitFacts& facts);
  void StopRanks(const StopRequest& request, const std::function<bool(const RankKey&)>& wanted);
  void StopWaiting(const StopRequest& request, const std::function<bool(const v1::Fence&)>& wanted);
  // Removes the attempt's work folder unless ranks of it are still here.
  void ReleaseWork(const v1::Fence& fence);
  void WorkOnFolders();
  void SayWhoDoesNotStart();
  void ForgetUnkillable(const RankKey& key);
  // Requires some.
  std::string LeftoverTrouble() const;
  void WatchLeftovers();
  void SayFitAgain();
  // Of ranks that run, are being started, or wait for their gang.
  void ForEachBusySlot(const std::function<void(uint32_t)>& visit) const;
  bool IsBusy(uint32_t slot) const;

  const SupervisorDeps deps_;
  const SupervisorOptions options_;
  Trash trash_;
  RankFolders folders_;
  FinishedRankFolders finished_;
  StoreRelay store_;
  GangStarts gangs_;
  AttemptFences fences_;
  SpecReader specs_;
  // Looks at paths, and starts: each is short, or hangs.
  SideThreads side_;
  // Checkpoints of commands, which are copied and read for minutes: no start waits behind them.
  SideThreads bulk_;
  // Of those that are reread before a start, by job and attempt: whether that gets on.
  std::map<std::pair<uint64_t, uint32_t>, std::shared_ptr<const std::atomic<uint64_t>>>
      blocks_read_;
  WorkFolders work_;
  ChildProcesses children_;
  Containers containers_;
  RankPlanner planner_;
  RankStarts starts_;
  std::map<RankKey, std::unique_ptr<Rank>> ranks_;
  std::set<RankKey> unkillable_;
  // Of an earlier agent of this folder; SIGKILL does not end them.
  std::vector<ProcessId> leftovers_;
  bool leftovers_said_ = false;
  bool draining_ = false;
};

}  // namespace muster::worker
