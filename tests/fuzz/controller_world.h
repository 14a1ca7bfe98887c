// A controller for one fuzz input: the real services over a real engine without threads, on a
// simulated clock, with a database on a memory file system, and agents that say what the input
// says. After each step the model's invariants hold; at the end, and at each restart, what is read
// back from the database is what was published.
//
// Any broken promise prints what it is and aborts: that is how a fuzzer hears of it.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/rpc/packed_queue.h"
#include "controller/api/admin_service.h"
#include "controller/api/exec_service.h"
#include "controller/api/job_service.h"
#include "controller/api/page_service.h"
#include "controller/api/worker_service.h"
#include "controller/engine/engine.h"
#include "tests/fuzz/fake_calls.h"
#include "tests/fuzz/fuzz_input.h"

namespace muster::testing {

class ControllerWorld {
 public:
  ControllerWorld();
  ~ControllerWorld();

  // One thing that happens: a request, an agent's word, time, or the controller's death.
  void Step(FuzzInput& input);
  // Ends all calls and reopens the database.
  void Finish();

  // The rpcs that were called, as "JobService.Submit".
  const std::set<std::string>& called() const { return called_; }
  // The kinds of WorkerMessage that the agents of this world have said, by their field numbers.
  const std::set<int>& said() const { return said_; }

 private:
  using Control = FakeBidi<v1::WorkerMessage, v1::ControllerMessage>;
  using Bulk = FakeBidi<v1::BulkBatch, v1::BulkAck>;
  using Submits = FakeBidi<v1::SubmitJobsRequest, v1::SubmitJobsResponse>;
  using PersonExec = FakeBidi<v1::ExecRequest, v1::ExecOutput>;
  using AgentExec = FakeBidi<v1::ExecOutput, v1::ExecInput>;
  struct Agent {
    std::string name;
    std::string incarnation;
    std::shared_ptr<Control> control;
    std::shared_ptr<Bulk> bulk;
    uint64_t said = 0;   // numbered reports of this incarnation
    uint64_t acked = 0;  // those that the controller has
    uint64_t heartbeats = 0;
    uint64_t batches = 0;
    std::vector<v1::StartRanks> starts;
    std::vector<uint64_t> assignments;       // not acknowledged yet
    v1::WatchRoots roots;                    // asked about, not answered yet
    PackedQueue<v1::WorkerMessage> waiting;  // what it will say in one message
    bool holds_back = false;                 // it says no message alone
  };
  struct Method;
  static const std::vector<Method>& AllMethods();
  template <typename Service, typename Request, typename Response>
  void CallUnary(FuzzInput& input, const std::string& name, Service& service,
                 grpc::ServerUnaryReactor* (Service::*handler)(grpc::CallbackServerContext*,
                                                               const Request*, Response*));
  template <typename Request, typename Response>
  void CallAdmin(FuzzInput& input, const std::string& name,
                 grpc::ServerUnaryReactor* (controller::AdminService::*handler)(
                     grpc::CallbackServerContext*, const Request*, Response*));
  template <typename Request, typename Response>
  void CallStream(FuzzInput& input, const std::string& name,
                  grpc::ServerWriteReactor<Response>* (controller::JobService::*handler)(
                      grpc::CallbackServerContext*, const Request*));

  void Open();
  void Close();
  void Restart();
  void Settle();  // all that follows from what was said, and then the invariants
  void CheckModel();

  void SubmitOnStream(FuzzInput& input);
  void SayToProgram(FuzzInput& input);  // as a person who runs one beside a rank
  void SayOfProgram(FuzzInput& input);  // as the agent that runs it
  void CallPeople(FuzzInput& input);
  void Connect(FuzzInput& input, Agent& agent);
  void SayAnything(FuzzInput& input, Agent& agent);
  void SayWhatAnAgentWould(FuzzInput& input, Agent& agent);
  void ReportRank(FuzzInput& input, Agent& agent);
  void ReportCheckpoint(FuzzInput& input, Agent& agent);
  void SendBulk(FuzzInput& input, Agent& agent);
  void Send(Agent& agent, v1::WorkerMessage message);
  void Hear(Agent& agent, const v1::ControllerMessage& packed);
  void HearOne(Agent& agent, const v1::ControllerMessage& message);

  std::string dir_;
  SimulatedClock clock_;
  CallBoard board_;
  std::unique_ptr<controller::Engine> engine_;
  std::unique_ptr<controller::JobService> jobs_;
  std::unique_ptr<controller::PageService> page_;
  std::unique_ptr<controller::AdminService> admin_;
  controller::ExecSessions exec_sessions_;
  std::unique_ptr<controller::ExecService> execs_;
  std::unique_ptr<controller::WorkerService> workers_;
  std::map<int, Agent> agents_;
  std::set<int> said_;
  std::set<std::string> called_;
  std::shared_ptr<Submits> submits_;            // the newest stream of submits
  std::shared_ptr<PersonExec> person_exec_;     // the newest
  std::shared_ptr<AgentExec> agent_exec_;       // likewise
  std::string exec_session_;                    // that an agent was told last
  std::vector<std::function<void()>> cancels_;  // of server streams that were opened
};

}  // namespace muster::testing
