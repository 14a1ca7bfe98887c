// The people: they submit jobs with idempotency keys and say it again when no answer comes, ask
// twice, ask for other things under the same key, cancel, hold, suspend and requeue, jobs alone and
// arrays as a whole, and have checkpoints reread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/dice.h"
#include "tests/sim/model.h"
#include "tests/sim/network.h"
#include "tests/sim/process.h"
#include "tests/sim/sim_controller.h"

namespace muster::sim {

class People {
 public:
  // They say it again when they have heard nothing for so long.
  static constexpr absl::Duration kPatience = absl::Seconds(10);
  static constexpr uint32_t kLargestArray = 4;

  struct Habits {
    absl::Duration submit_every = absl::Minutes(2);
    absl::Duration cancel_every = absl::Minutes(8);
    uint32_t slots = 4;   // of the whole cluster
    uint32_t widest = 4;  // of the largest machine
    double fail = 0;      // how badly their jobs behave
    std::vector<std::string> workers = {};
    uint32_t quota = 0;               // slots that project red may hold; 0: no bound
    uint32_t user_quota = 0;          // and each of its users, at most as many
    bool quotas_change = false;       // never below user_quota
    bool queues_are_bounded = false;  // of red, and of each of its users
    int max_jobs = 12;
    uint64_t data_seed = 0;  // of a stream of its own; 0: no job names data
  };
  People(Agenda& agenda, Trace& trace, Network& network, SimController& controller, Model& model,
         Dice dice, Habits habits);

  void Begin();
  // Nothing new; what was held back goes on.
  void Stop();
  // Requests whose answer has not come.
  int waiting() const { return waiting_; }

 private:
  struct Request {
    std::string owner;
    std::string key;
    std::shared_ptr<const mc::JobSettings> settings;
    std::optional<mc::ArrayRange> array = std::nullopt;
    bool answered = false;
  };
  void SubmitSoon();
  void ActSoon();
  void Submit();
  std::shared_ptr<const mc::JobSettings> Settings();
  void Try(const std::shared_ptr<Request>& request);
  void OnAnswer(const std::shared_ptr<Request>& request, const mc::EventResult& result);
  void AskForOther(const Request& request);
  void Cancel(uint64_t job_id);
  void Control(uint64_t job_id, mc::ControlJob::Verb verb, bool whole_array);
  void ControlSomething();
  void Cordon(const std::string& worker, bool cordoned);
  // Cancelled are jobs and arrays of even numbers, the other verbs are for odd ones: so that a
  // cancel is final.
  bool IsForCancels(uint64_t job_id) const;
  std::vector<uint64_t> ArrayOf(uint64_t job_id) const;  // all of its jobs, or it alone
  void Schedule(mc::JobSettings& settings);
  void LetGo();  // of all that is held, suspended or drained, until it is heard
  void Reread();
  void AskForQuotas();
  void SayQuotas();
  void BoundQueues();
  void ChangeQuotasSoon();
  // Of a job whose submit was acknowledged, archived or not.
  void CheckFound(uint64_t job_id, const mc::EventResult& result);
  // A call and its answer over the network; either may be lost.
  void Call(mc::Event event, std::function<void(const mc::EventResult&)> done);

  Agenda& agenda_;
  Trace& trace_;
  Network& network_;
  SimController& controller_;
  Model& model_;
  Dice dice_;
  const Habits habits_;
  std::vector<std::shared_ptr<Request>> accepted_;
  std::vector<uint64_t> jobs_;
  std::map<uint64_t, uint64_t> array_of_;  // its first job, by job
  uint64_t requests_ = 0;
  std::set<uint64_t> held_;        // jobs that were held or suspended, or that one tried to
  std::set<std::string> drained_;  // workers, likewise
  int submitted_ = 0;
  int waiting_ = 0;
  Model::Quotas quotas_;       // of project red
  bool quotas_set_ = false;    // at least once
  bool quotas_asked_ = false;  // and not acknowledged
  absl::Duration quotas_set_at_;
  bool stopped_ = false;
};

}  // namespace muster::sim
