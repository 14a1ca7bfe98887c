// One musterd under the crash counter and real agents on loopback, all in one folder. The agents'
// ranks are tests/worker/agent/fake_trainer: real processes on the real link, without torch.
//
// One thread. The controller comes back on the same ports, so that agents and ranks find it again.
#pragma once

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

class CrashCluster {
 public:
  explicit CrashCluster(const CrashTiming& timing);
  ~CrashCluster();  // nothing of it lives on

  // ---- the controller and its page ----
  // Starts it and waits until it answers; a test failure when it does not.
  void StartController();
  // As a person would; a failure when it does not leave.
  void StopController();
  // From now on the calls count, and the one named `kill_at` is the last (0: none is).
  void Arm(uint64_t kill_at);
  // Calls since Arm.
  uint64_t Disarm();
  // The controller was killed by its counter; then the call before which it was.
  bool killed() const { return page_->killed.load() != 0; }
  const char* killed_before() const { return page_->call; }
  // Waits for the end of a controller that was killed.
  void AwaitDeath();
  // Opens a copy of the dead controller's database: a failure unless SQLite finds it whole and the
  // model in it keeps the invariants. Gives the number of assignments that wait in the outbox.
  size_t AuditDatabase();

  // ---- agents ----
  void StartWorker(const std::string& name, int slots);
  void KillWorker(const std::string& name);
  // Ranks of the job's attempt that live, as "PID COMMAND"; attempt 0: of any attempt.
  std::vector<std::string> RankProcesses(uint64_t job, uint32_t attempt) const;

  // ---- as a client ----
  struct Job {
    std::string name;  // and its idempotency key
    uint32_t ranks = 1;
    std::vector<std::string> script;  // of each rank: fake_trainer's commands
  };
  absl::StatusOr<v1::SubmitResponse> Submit(const Job& job);
  absl::Status Cancel(uint64_t job);
  absl::StatusOr<v1::GetJobResponse> Get(uint64_t job);
  // Jobs of that name.
  absl::StatusOr<int> Count(const std::string& name);
  absl::StatusOr<std::vector<v1::WorkerInfo>> Workers();
  // Reads the job's watch until `done` says so; false when the stream ended before, because the
  // controller did.
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

  TempDir dir_;
  const CrashTiming timing_;
  CrashPage* page_ = nullptr;
  std::unique_ptr<Subprocess> controller_;
  std::map<std::string, std::unique_ptr<Subprocess>> workers_;
  std::map<std::string, std::string> addresses_;  // of every start, by endpoints.json's keys
  std::string token_;
  std::unique_ptr<v1::JobService::Stub> stub_;
};

}  // namespace muster::testing
