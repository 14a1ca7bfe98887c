// A simulated rank: what muster-trainer does, as seen from its agent and from its gang. It meets
// the others through the controller's store, loads the newest whole checkpoint, makes steps
// together with them, saves through lease, publish and commit, fails in every way, and exits.
//
// It is the truth of the simulated machine: while `alive`, its device is in use. That outlasts the
// rank itself where it leaves a child behind, a daemon in a session of its own.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/v1/worker_service.pb.h"
#include "tests/sim/dice.h"
#include "tests/sim/execution.h"
#include "tests/sim/storage.h"
#include "tests/sim/trace.h"
#include "worker/agent/base/rank_key.h"
#include "worker/link/link_messages.h"

namespace muster::sim {

// How a job behaves; travels as JSON in the spec.
struct JobPlan {
  int64_t steps = 10;
  int64_t save_every = 3;
  int64_t step_ms = 3000;
  double fail = 0;       // chance that a rank fails in a step
  bool forgets = false;  // begins anew each time, whatever was saved
  enum class Kind {
    kTrainer,
    kCommand,  // any program that reports as a trainer does
    kSilent,   // any program: it runs and exits
  };
  Kind kind = Kind::kTrainer;
};
std::string EncodePlan(const JobPlan& plan);
JobPlan DecodePlan(const std::string& spec_json);

class Process;

// The ranks of one attempt, as their collectives see them.
struct Gang {
  uint32_t world_size = 0;
  std::map<uint32_t, Process*> members;  // alive
  std::map<uint32_t, int64_t> arrived;   // rank -> step that it has done
  bool save_requested = false;
  bool stop_agreed = false;
  // How rank 0 reads, which chooses what all go on from; as it was when the first one loaded.
  std::optional<Storage::Misreading> misreading;
};

// What all ranks of a world share.
struct RankWorld {
  Agenda& agenda;
  Trace& trace;
  Storage& storage;
  bool healed = false;  // nothing fails by itself any more
  // Chances that SIGKILL does not end a process (its driver hangs), and that what a rank started
  // hides from the death of its agent.
  double undead = 0;
  double orphans = 0;
  // That a command leaves a child, which lives on until it is killed.
  double daemons = 0;
  uint64_t children_left = 0;
  uint64_t undead_so_far = 0;
  uint64_t held_back = 0;  // agents that came up beside what an earlier one left
  std::map<std::pair<uint64_t, uint32_t>, std::shared_ptr<Gang>> gangs;  // by job and attempt
  // A gang resumes from this step; for the invariants.
  std::function<void(uint64_t job_id, uint32_t attempt, int64_t step)> on_resume =
      [](uint64_t, uint32_t, int64_t) {};
  // A rank is about to give a folder its name, as it was allowed to a while ago.
  std::function<void(const std::string& path, const Storage::Folder&)> on_rename =
      [](const std::string&, const Storage::Folder&) {};
  // A rank of the job ended well.
  std::function<void(uint64_t job_id, uint32_t attempt, uint32_t rank)> on_success =
      [](uint64_t, uint32_t, uint32_t) {};
};

struct ProcessExit {
  int code = 0;
  int signal = 0;
};

class Process {
 public:
  struct Setup {
    worker::RankKey key;
    std::vector<uint32_t> slots;
    uint32_t world_size = 0;
    std::string checkpoint_root;
    std::vector<v1::StartRanks::Resume> resume;
    JobPlan plan;
    std::string machine;
  };
  Process(RankWorld& world, Dice dice, Setup setup);
  ~Process();

  // The link to the agent; unset when there is none (any more).
  std::function<void(worker::RankLine)> to_agent;
  std::function<void()> on_leader_exit;      // a child of it lives on
  std::function<void(ProcessExit)> on_exit;  // nothing of it is left

  const Setup& setup() const { return setup_; }
  bool alive() const { return alive_; }
  Execution& execution() { return execution_; }

  void Start();
  void OnLine(const worker::AgentLine& line);
  void Terminate();  // SIGTERM
  // SIGKILL to it, and to its child where both are in a cgroup; to its child once it has ended. It
  // may take a while to die, or for ever.
  void Kill() { Kill(in_cgroup_); }
  // The same by a later agent, which finds its child beside it.
  void KillAll() { Kill(/*with_child=*/true); }
  // Its agent is dead: the kernel kills it, unless it hides, but not its child.
  void OnAgentDead();
  void LosePower();  // of the machine
  // SIGKILL came and did not end it.
  bool undead() const { return alive_ && undead_; }
  // An agent of this incarnation came up beside it, and starts nothing while it lives.
  void SetAside(const std::string& incarnation) { set_aside_by_.insert(incarnation); }
  const std::set<std::string>& set_aside_by() const { return set_aside_by_; }

 private:
  void Say(worker::RankLine line);
  void Progress(const char* phase);
  void Store(worker::StoreLine::Op op, std::vector<std::string> keys);
  void OnStoreReply(const worker::StoreReplyLine& reply);
  void Load();
  Storage::Misreading MisreadingOfGang();
  void BeginStep();
  void RunSilently();
  void Arrive();
  void OnBarrier();
  void Save(int64_t step);
  void Publish(int64_t step);
  bool SeesRoot() const { return world_.storage.IsSeenBy(setup_.machine); }
  void Report();  // the step's numbers
  void OnAck(const worker::AckLine& ack);
  void OnPublish();
  void OnCommitted(const worker::CommittedLine& line);
  void AgreeToSave();
  void MaybeFail();
  void OnMemberLost();
  void Succeed();
  void LeaveAsAsked();
  void Fail(const std::string& failure_class, const std::string& message);
  void Kill(bool with_child);
  void Die();
  void Exit(ProcessExit exit);
  void LeaveChild();
  void LeaveGang();
  std::string FolderPath(int64_t step) const;

  RankWorld& world_;
  Dice dice_;
  const Setup setup_;
  const std::shared_ptr<Gang> gang_;
  Execution execution_;
  const bool in_cgroup_;
  bool leaves_child_;   // when it ends
  bool ended_ = false;  // itself
  ProcessExit exit_;
  bool alive_ = false;
  bool training_ = false;
  bool hung_ = false;
  bool leaving_ = false;  // its last word is said
  bool deaf_ = false;     // to SIGTERM
  bool killed_ = false;   // SIGKILL was sent
  bool undead_ = false;
  int64_t step_ = 0;
  int64_t saved_step_ = 0;   // committed
  int64_t saving_step_ = 0;  // on its way; 0: none
  bool published_ = false;
  uint64_t store_id_ = 0;
  uint64_t metrics_seq_ = 0;
  std::deque<worker::MetricsLine> kept_;  // numbers that the agent has not taken
  bool again_is_due_ = false;
  std::set<std::string> set_aside_by_;
};

}  // namespace muster::sim
