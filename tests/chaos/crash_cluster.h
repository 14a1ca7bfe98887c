// A real musterd and real agents on loopback, all in one folder; one program of them is under the
// crash counter. The agents' ranks are tests/worker/agent/fake_trainer (real processes on the real
// link, without torch), but the real muster-trainer where that is the victim.
//
// One thread. The controller comes back on the same ports, so that agents and ranks find it again.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "muster/v1/job_service.grpc.pb.h"
#include "tests/chaos/crash_page.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_dir.h"

namespace muster::testing {

// Silence before an agent is given up; short where a sweep waits for it at each point.
struct CrashTiming {
  absl::Duration heartbeat = absl::Seconds(1);
  absl::Duration suspect = absl::Seconds(10);
  absl::Duration lost = absl::Seconds(20);
  absl::Duration grace = absl::Seconds(20);
};

// Which program dies: the controller, the agent "worker-1", or the trainers of that agent.
enum class Victim { kController, kAgent, kTrainer };

class CrashCluster {
 public:
  CrashCluster(const CrashTiming& timing, Victim victim);
  ~CrashCluster();  // nothing of it lives on

  // ---- the controller and its page ----
  // Starts it and waits until it answers; a test failure when it does not.
  void StartController();
  // As a person would; a failure when it does not leave.
  void StopController();
  // From now on the victim's calls count, and the kill_at-th of that kind (a place in kCrashCalls,
  // or kAnyCall) is its last; 0: none is.
  void Arm(uint32_t kill_kind, uint64_t kill_at);
  // Calls since Arm, and how many of each kind.
  struct Calls {
    uint64_t all = 0;
    std::array<uint64_t, kCrashCallCount> of_kind = {};
  };
  Calls Disarm();
  // The victim was killed by its counter; then the call before which it was.
  bool killed() const { return page_->killed.load() != 0; }
  const char* killed_before() const { return kCrashCalls[page_->killed_kind.load()]; }
  // Waits for the end of a victim that was killed, and starts it again: as an operator would, but a
  // trainer, which is its agent's affair. The database of a dead controller is audited first.
  void Revive();
  // Opens a copy of the dead controller's database: a failure unless SQLite finds it whole and the
  // model in it keeps the invariants. Gives the number of assignments that wait in the outbox.
  size_t AuditDatabase();

  // ---- agents ----
  void StartWorker(const std::string& name, int slots);
  bool with_trainer() const { return victim_ == Victim::kTrainer; }
  void KillWorker(const std::string& name);
  // Ranks of the job's attempt that live, as "PID COMMAND"; attempt 0: of any attempt.
  std::vector<std::string> RankProcesses(uint64_t job, uint32_t attempt) const;

  // ---- as a client ----
  struct Job {
    std::string name;  // and its idempotency key
    uint32_t ranks = 1;
    std::vector<std::string> script;  // of each rank: fake_trainer's commands
    uint32_t steps = 100;
    uint32_t save_every = 0;
  };
  absl::StatusOr<v1::SubmitResponse> Submit(const Job& job);
  absl::Status Cancel(uint64_t job);
  absl::StatusOr<v1::GetJobResponse> Get(uint64_t job);
  // The highest id that a submit was answered with.
  uint64_t newest_job() const { return newest_job_; }
  // Jobs of that name.
  absl::StatusOr<int> Count(const std::string& name);
  absl::StatusOr<std::vector<v1::WorkerInfo>> Workers();
  // Follows the job until `done` says so; false when the victim died before.
  bool Watch(uint64_t job, const std::function<bool(const v1::JobSummary&)>& done);
  // Repeats it while the controller does not answer; the last answer.
  template <typename Call>
  auto Patiently(Call call) {
    auto answer = call();
    WaitUntil(kPatience, [&] {
      answer = call();
      return !IsAway(answer);
    });
    return answer;
  }

  std::string Path(const std::string& name) const { return dir_ / name; }
  // Makes a file that a rank's `await_file` waits for.
  void Touch(const std::string& path) const;
  // What the daemons said, for a failed test.
  void PrintLogs() const;

  static constexpr absl::Duration kPatience = absl::Minutes(1);

 private:
  static bool IsAway(const absl::Status& status);
  template <typename T>
  static bool IsAway(const absl::StatusOr<T>& value) {
    return IsAway(value.status());
  }
  void Prepare(grpc::ClientContext& context) const;
  // What `program` needs to count; nothing unless it is the victim, or starts the victim.
  Environment CounterOf(Victim program) const;

  TempDir dir_;
  const CrashTiming timing_;
  const Victim victim_;
  CrashPage* page_ = nullptr;
  std::unique_ptr<Subprocess> controller_;
  std::map<std::string, std::unique_ptr<Subprocess>> workers_;
  std::map<std::string, int> slots_;              // of each worker that was started
  std::map<std::string, std::string> addresses_;  // of every start, by endpoints.json's keys
  std::string token_;
  uint64_t newest_job_ = 0;
  std::unique_ptr<v1::JobService::Stub> stub_;
};

}  // namespace muster::testing
