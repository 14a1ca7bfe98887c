// Holds this worker's ranks: starts them as assigned, ends them as told, and passes on what they
// report.
//
// Lives on the event loop. It decides by supervisor_rules.h; it knows no gRPC: what leaves goes to
// the SupervisorSink.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/fs/file_system.h"
#include "common/metrics/registry.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/agent/background_thread.h"
#include "worker/agent/children.h"
#include "worker/agent/command_listener.h"
#include "worker/agent/containers.h"
#include "worker/agent/event_loop.h"
#include "worker/agent/finished_folders.h"
#include "worker/agent/gang_start.h"
#include "worker/agent/offer_folders.h"
#include "worker/agent/rank.h"
#include "worker/agent/rank_cgroup.h"
#include "worker/agent/rank_folders.h"
#include "worker/agent/spool.h"
#include "worker/agent/store_relay.h"
#include "worker/agent/supervisor_rules.h"
#include "worker/agent/work_folders.h"

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
  // This machine should be drained: why. Said again in each session while it is so.
  virtual void Unfit(const std::string& why) = 0;
};

struct SupervisorOptions {
  std::string ranks_root;    // a folder per rank is made in it
  std::string work_root;     // a folder per attempt with an upload
  std::string upload_cache;  // their archives
  std::string sockets_root;  // and here a socket per slot; it is there
  // What no other agent of this machine is called, for its cgroups; empty: it makes none.
  std::string cgroup_name;
  std::string trainer;  // path of muster-trainer
  bool allow_commands = false;
  Containers::Options containers;
  std::string worker_name;
  std::string advertise_address;
  std::vector<v1::Slot> slots;
  std::vector<std::string> base_environment;  // NAME=value, for every rank
  // From SIGKILL until a rank is called unkillable, and its worker is drained.
  absl::Duration kill_patience;
};

struct SupervisorDeps {
  EventLoop& loop;
  FileSystem& fs;
  Spool& spool;
  Registry& registry;
  const EnergyMeter& energy;
  SupervisorSink& sink;
  UploadSource uploads;
};

class Supervisor final : private RankHost {
 public:
  Supervisor(const SupervisorDeps& deps, SupervisorOptions options);
  ~Supervisor() override;

  // Kills every process that an earlier agent of this data folder left, and waits until they are
  // gone; then adopts their folders' logs. DEADLINE_EXCEEDED: some would not die. Blocks; call
  // before the loop runs.
  absl::Status ClearLeftovers();

  // OK: the ranks run, or their failure to start was reported as an event. Else why the assignment
  // is refused.
  absl::Status Start(const v1::StartRanks& start, uint64_t session_term);
  // Always taken: ranks that are not here have been reported already, and those that come later are
  // fenced.
  void Stop(const v1::StopRanks& stop);
  void KillStale(const v1::Welcome::StaleRank& stale);
  void StopAll(const StopRequest& request);
  // No StartRanks is taken any more.
  void Drain() { draining_ = true; }

  void OnStoreReply(const v1::StoreReply& reply) { store_.OnReply(reply); }
  void OnCheckpointAck(const v1::CheckpointAck& ack);
  void OnSessionUp(uint64_t term);
  void OnSessionDown() { store_.SessionDown(); }
  void OnLeaseRenewed();
  // Ends ranks whose controller has been away for longer than their job allows; sweeps what waits;
  // removes folders that are done. Call about once a second.
  void Tick(absl::Duration controller_away);

  std::vector<v1::RankStatus> Statuses() const;
  std::set<uint32_t> BusySlots() const;
  bool empty() const;

 private:
  void OnRankEvent(v1::RankEvent event) override;
  void OnCheckpointEvent(v1::CheckpointEvent event) override;
  void OnStoreLine(Rank& rank, StoreLine line) override;
  BackgroundThread& Background() override { return background_; }
  void OnPhaseChange() override { deps_.sink.HeartbeatNow(); }
  void OnUnkillable(const Rank& rank, const std::string& what) override;
  bool LeaseAllowsPublish() override { return deps_.sink.LeaseAllowsPublish(); }
  void GiveBackOffers(const std::string& job_root) override { offers_.GiveBack(job_root); }
  void OnGone(const RankKey& key, bool silent) override;

  // What is the same for both kinds of rank, and its folder.
  absl::StatusOr<RankPlan> Prepare(const v1::StartRanks& start, const v1::StartRanks::Rank& rank,
                                   const SpecSettings& settings);
  void OpenCgroups();
  absl::StatusOr<std::unique_ptr<RankCgroup>> MakeCgroup(const RankPlan& plan);
  absl::StatusOr<RankPlan> PrepareTrainer(const v1::StartRanks& start,
                                          const v1::StartRanks::Rank& rank,
                                          const SpecSettings& settings);
  absl::StatusOr<RankPlan> PrepareCommand(GangStart& gang, const v1::StartRanks::Rank& rank);
  // Fills what runs the command: as it is, or in its container.
  absl::Status PrepareProgram(const GangStart& gang, const v1::StartRanks::Rank& rank,
                              const CommandPlace& place, RankPlan& plan);
  absl::Status PrepareContainer(const GangStart& gang, const v1::StartRanks::Rank& rank,
                                const CommandPlace& place, RankPlan& plan);
  // Where it runs on this machine; NOT_FOUND: that is not there.
  absl::StatusOr<std::string> WorkFolder(const GangStart& gang);
  void Fetch(const RankKey& key, const v1::Fence& fence, const CommandSettings& command);
  void StartOne(const v1::StartRanks& start, const v1::StartRanks::Rank& rank,
                absl::StatusOr<RankPlan> plan);
  void FindResume(const RankKey& key, const v1::StartRanks& start);
  void OnGangReady(GangStart gang, const absl::Status& status);
  void ReportNeverRan(const v1::Fence& fence, uint32_t rank, const ExitFacts& facts);
  void StopWaiting(const StopRequest& request, const std::function<bool(const v1::Fence&)>& wanted);
  // The slots whose GPUs a command's rank sees.
  std::vector<uint32_t> VisibleSlots(const v1::StartRanks& start,
                                     const v1::StartRanks::Rank& rank) const;
  // UUIDs of the GPUs among these slots.
  std::string GpusOf(const std::vector<uint32_t>& slots) const;
  // Removes the attempt's work folder unless ranks of it are still here.
  void ReleaseWork(const v1::Fence& fence);
  void WorkOnFolders();
  const v1::Slot* FindSlot(uint32_t index) const;
  bool IsBusy(uint32_t slot) const;

  const SupervisorDeps deps_;
  const SupervisorOptions options_;
  RankFolders folders_;
  FinishedFolders finished_;
  CommandListeners listeners_;
  OfferFolders offers_;
  StoreRelay store_;
  GangStarts gangs_;
  AttemptFences fences_;
  SpecReader specs_;
  BackgroundThread background_;
  WorkFolders work_;
  Children children_;
  Containers containers_;
  std::unique_ptr<RankCgroups> cgroups_;  // where they can be made
  std::map<RankKey, std::unique_ptr<Rank>> ranks_;
  std::map<RankKey, std::string> unkillable_;
  bool draining_ = false;
};

}  // namespace muster::worker
