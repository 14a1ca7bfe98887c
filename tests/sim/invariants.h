// What must hold after every step of the controller, seen in its published versions, by the truth
// of the simulated machines and disks, and by the model of what was promised.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "controller/model/snapshot.h"
#include "controller/model/types/events.h"
#include "tests/sim/model.h"
#include "tests/sim/preemption_check.h"
#include "tests/sim/run_times.h"
#include "tests/sim/storage.h"
#include "tests/sim/trace.h"
#include "worker/agent/base/rank_key.h"

namespace muster::sim {

// A process that is alive on a machine, whatever anybody thinks.
struct LiveProcess {
  std::string host;
  std::string worker;  // the name that its host goes by
  uint32_t slot = 0;
  worker::RankKey key;
  std::set<std::string> set_aside_by;  // incarnations that start nothing while it lives
};

class Invariants {
 public:
  struct Report {
    std::string worker;
    std::string incarnation;
    uint64_t event_seq = 0;
    mc::Fence fence;  // job 0: not of a gang
  };

  Invariants(Trace& trace, Storage& storage, Model& model)
      : trace_(trace), storage_(storage), model_(model), preemptions_(trace), run_times_(trace) {}

  std::function<std::vector<LiveProcess>()> live_processes;
  std::function<absl::Time()> now;             // the wall clock
  std::function<absl::Duration()> since_boot;  // of the machines' own
  // The agent is alive, has not left, and its lease holds by its own clock.
  std::function<bool(const std::string& incarnation)> holds_lease;
  // The only worker whose machine may read wrongly what is whole; empty: none.
  std::string misreader;
  const PreemptionCheck& preemptions() const { return preemptions_; }
  // How often a name went from one host to another.
  uint64_t names_moved() const { return names_moved_; }
  // Folders that got their names when their attempts were over.
  size_t strays() const { return strays_.size(); }

  // ---- the controller ----
  // `before`: the version that its predecessor published last; null: there was none. `exact`: that
  // one did not die in the middle of a step, so that not more is on disk than was seen.
  void OnStart(const mc::Snapshot& snapshot, const mc::Snapshot* before, bool exact);
  void OnPublished(const mc::Snapshot& snapshot, const mc::Snapshot* before);
  void OnHello(const mc::WorkerHello& hello, const mc::EventResult& result);
  // `before`: the version that was published last.
  void OnReport(const Report& report, const mc::EventResult& result, const mc::Snapshot* before);

  // ---- the machines ----
  void OnAgentStart(const std::string& host, const std::string& incarnation) {
    host_of_[incarnation] = host;
  }
  // It was allowed to publish a checkpoint.
  void OnPublish(uint64_t job_id, uint32_t attempt, const mc::Snapshot* snapshot);
  // A folder is about to get its name.
  void OnRename(const std::string& path, const Storage::Folder& folder,
                const mc::Snapshot* snapshot);
  void OnResume(uint64_t job_id, uint32_t attempt, int64_t step, const mc::Snapshot* snapshot);
  void OnDelete(const std::string& path, const Storage::Folder& folder,
                const mc::Snapshot* snapshot);

  // Bits of a folder are about to rot.
  void OnRot(const std::string& path);

  // After everything has healed.
  void CheckLimits(const mc::Snapshot& snapshot) const {
    model_.CheckLimits(snapshot, now());
    run_times_.CheckEnded(snapshot, since_boot());
  }
  // After everything has healed and every job has ended.
  void OnQuiet(const mc::Snapshot& snapshot);

 private:
  void CheckRestart(const mc::Snapshot& snapshot, const mc::Snapshot& before);
  void NoteUnstoredHolders(const mc::Snapshot& snapshot, const mc::Snapshot& before);
  void FreeForgottenNames(const mc::Snapshot& snapshot, const mc::Snapshot& before);
  void KeepStored(const mc::Snapshot& snapshot, const mc::Snapshot& before);
  void CheckHistory(const mc::Snapshot& snapshot, const mc::Snapshot& before);
  void CheckEvents(const mc::Job& job, const mc::Job* before);
  void CheckJob(const mc::Job& job);
  void CheckSlots(const mc::Snapshot& snapshot);
  void CheckProcess(const mc::Snapshot& snapshot, const LiveProcess& live);
  void CheckPlacements(const mc::Snapshot& snapshot, const mc::Snapshot* before);
  void CheckVerdicts(const mc::Snapshot& snapshot, const mc::Snapshot& before);
  std::set<std::string> OtherReaders(const mc::Snapshot& snapshot) const;
  void CheckCheckpoints(const mc::Snapshot& snapshot);
  void CheckLedger(const mc::Job& job);

  Trace& trace_;
  Storage& storage_;
  Model& model_;
  PreemptionCheck preemptions_;
  RunTimes run_times_;
  // The rows of workers that could not be stored as they are shown, as they were stored last;
  // empty: not at all.
  std::map<uint64_t, std::string> stored_;
  std::map<std::string, std::string> host_of_;         // of each incarnation
  std::map<std::string, std::string> holder_of_name_;  // worker -> incarnation that was accepted
  std::set<std::string>
      unfenced_;  // incarnations that no controller knows any more, nor has fenced
  uint64_t names_moved_ = 0;
  std::set<std::pair<std::string, std::string>> fenced_;  // worker, incarnation
  std::map<uint64_t, int64_t> committed_step_;            // by job
  std::map<uint64_t, mc::LabelledTime> settled_;          // by job, over all controllers
  std::set<std::string> deleted_;                         // folders, by an agent
  std::set<std::string> strays_;                          // folders
  // Jobs that lost a checkpoint to rot, or to the only reader that there was.
  std::set<uint64_t> rotten_;
  std::set<std::string> other_readers_;  // workers, by the version that was published last
};

// What of a version must survive a crash, by row.
std::map<std::string, std::string> DurableRows(const mc::Snapshot& snapshot);
// Of these the rows of one job without its checkpoints, of a worker, of a checkpoint.
std::map<std::string, std::string> DurableRows(const mc::Job& job);
std::string DurableRow(const mc::Worker& worker);
std::string DurableRow(const mc::Checkpoint& checkpoint);

}  // namespace muster::sim
