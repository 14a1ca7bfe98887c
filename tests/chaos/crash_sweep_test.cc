// Crash-point sweeps of the real musterd, muster-worker and muster-trainer: from a request to its
// settled effect, one of them dies just before the n-th call that leaves something behind, for
// n = 1, 2, 3, ... until it passes untouched. After each death of a controller SQLite finds its
// database whole and the model in it keeps the invariants; after any, what was promised is finished
// once the dead is back, no process of a dead attempt is left, and no metric or line of a log is
// stored twice or missing.
//
// MUSTER_CHAOS=whole sweeps every point. Otherwise each kind of call that an untouched run makes
// has its turn: the victim dies before the middle one of that kind, and where there are many before
// the first and the last quarter's too. Either prints which calls it died before, and how often.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/ckpt/verifier.h"
#include "tests/chaos/crash_cluster.h"
#include "tests/integration/raw_rows.h"
#include "tests/support/adopted.h"
#include "tests/support/cluster.h"
#include "tests/support/status_matchers.h"

namespace muster::testing {
namespace {

// A kind of call that an untouched run makes so often has more points than one in the short mode,
// and must be died before: rarer ones may belong to something that happens beside it.
constexpr uint64_t kManyCalls = 8;
constexpr uint64_t kSurelyMade = 3;
constexpr int kTriesAtAPoint = 3;
// A count differs a little from run to run: so many runs in a row must pass untouched.
constexpr int kUntouchedInARow = 3;
constexpr absl::Duration kOrphanWait = absl::Seconds(20);

bool IsEnd(v1::JobState state) {
  return state == v1::SUCCEEDED || state == v1::FAILED || state == v1::CANCELLED;
}

// What is swept: one request, or one fault, and what must become of it.
class Operation {
 public:
  explicit Operation(CrashCluster& cluster) : cluster_(cluster) {}
  virtual ~Operation() = default;

  virtual const char* name() const = 0;
  // The world just before it. `run` makes names unique.
  virtual void Prepare(int run) = 0;
  // Does it and waits until its effect has settled, or until the controller is gone.
  virtual void Run() = 0;
  // With a controller that is there: what was promised holds, and the job ends.
  virtual void Heal() = 0;

 protected:
  uint64_t SubmitForSure(const CrashCluster::Job& job) {
    const auto response = cluster_.Patiently([&] { return cluster_.Submit(job); });
    EXPECT_OK(response);
    return response.ok() ? response->job_id() : 0;
  }
  // Follows the job over crashes and restarts of the controller.
  void AwaitState(uint64_t job, v1::JobState wanted) {
    v1::JobSummary last;
    EXPECT_TRUE(WaitUntil(CrashCluster::kPatience, [&] {
      const auto answer = cluster_.Get(job);
      if (answer.ok()) last = answer->summary();
      return last.state() == wanted || IsEnd(last.state());
    }));
    EXPECT_EQ(last.state(), wanted) << name() << ": " << last.ShortDebugString();
  }
  // No rank of an attempt before the newest lives; of an ended job, none at all. What an agent that
  // is gone left, without its environment, only its next life ends.
  void ExpectNoOrphans(uint64_t job, bool all_agents_live = true) {
    const auto answer = cluster_.Patiently([&] { return cluster_.Get(job); });
    ASSERT_OK(answer);
    std::vector<uint32_t> dead;
    if (IsEnd(answer->summary().state())) dead = {0};
    for (uint32_t attempt = 1; attempt < answer->summary().attempt(); ++attempt) {
      dead.push_back(attempt);
    }
    for (const uint32_t attempt : dead) {
      std::vector<std::string> left;
      EXPECT_TRUE(WaitUntil(kOrphanWait,
                            [&] {
                              left = cluster_.RankProcesses(job, attempt);
                              return left.empty();
                            }))
          << "orphans of job " << job << ":\n"
          << absl::StrJoin(left, "\n");
    }
    if (!all_agents_live) return;
    // What hides from such a look has lost its starter by now, and is ours.
    std::vector<std::string> adopted;
    EXPECT_TRUE(WaitUntil(kOrphanWait,
                          [&] {
                            adopted = AdoptedProcesses({"musterd", "muster-worker"});
                            return adopted.empty();
                          }))
        << "orphans of some job:\n"
        << absl::StrJoin(adopted, "\n");
  }
  // As a client does that does not know whether it was heard: repeats it with the same key.
  void ExpectSubmittedOnce(const CrashCluster::Job& job, uint64_t acknowledged) {
    const uint64_t repeated = SubmitForSure(job);
    if (acknowledged != 0) {
      EXPECT_EQ(repeated, acknowledged) << "an acknowledged submit was lost";
    }
    const auto count = cluster_.Patiently([&] { return cluster_.Count(job.name); });
    ASSERT_OK(count);
    EXPECT_EQ(*count, 1);
  }

  CrashCluster& cluster_;
};

class SubmitOperation final : public Operation {
 public:
  using Operation::Operation;
  const char* name() const override { return "submit"; }
  void Prepare(int run) override {
    job_ = {.name = absl::StrCat("submit-", run),
            .script = {"hide", "progress train 1", "progress train 2", "result succeeded"}};
    acknowledged_ = 0;
  }
  void Run() override {
    const auto response = cluster_.Submit(job_);
    if (response.ok()) acknowledged_ = response->job_id();
  }
  void Heal() override {
    ASSERT_NO_FATAL_FAILURE(ExpectSubmittedOnce(job_, acknowledged_));
    const uint64_t id = SubmitForSure(job_);
    AwaitState(id, v1::SUCCEEDED);
    ExpectNoOrphans(id);
  }

 private:
  CrashCluster::Job job_;
  uint64_t acknowledged_ = 0;
};

// A job holds a slot that a waiting gang needs. It ends; the gang is placed, started, and trains.
class AssignOperation final : public Operation {
 public:
  using Operation::Operation;
  const char* name() const override { return "assign"; }
  void Prepare(int run) override {
    go_ = cluster_.Path(absl::StrCat("go-", run));
    end_ = cluster_.Path(absl::StrCat("end-", run));
    before_ = SubmitForSure({.name = absl::StrCat("before-", run),
                             .script = {"hide", "progress train 1", "progress train 2",
                                        "await_file " + go_, "result succeeded"}});
    AwaitState(before_, v1::RUNNING);
    gang_ = SubmitForSure({.name = absl::StrCat("gang-", run),
                           .ranks = 2,
                           .script = {"hide", "progress train 1", "progress train 2",
                                      "await_file " + end_, "result succeeded"}});
  }
  void Run() override {
    cluster_.Touch(go_);
    cluster_.Watch(gang_, [](const v1::JobSummary& job) { return job.state() == v1::RUNNING; });
  }
  void Heal() override {
    AwaitState(gang_, v1::RUNNING);
    ExpectNoOrphans(gang_);
    cluster_.Touch(end_);
    for (const uint64_t job : {before_, gang_}) {
      AwaitState(job, v1::SUCCEEDED);
      ExpectNoOrphans(job);
    }
  }

 private:
  std::string go_, end_;
  uint64_t before_ = 0, gang_ = 0;
};

class CancelOperation final : public Operation {
 public:
  using Operation::Operation;
  const char* name() const override { return "cancel"; }
  void Prepare(int run) override {
    acknowledged_ = false;
    job_ = SubmitForSure({.name = absl::StrCat("cancel-", run),
                          .ranks = 2,
                          .script = {"hide", "progress train 1", "progress train 2", "hang"}});
    AwaitState(job_, v1::RUNNING);
  }
  void Run() override {
    acknowledged_ = cluster_.Cancel(job_).ok();
    cluster_.Watch(job_, [](const v1::JobSummary& job) { return job.state() == v1::CANCELLED; });
  }
  void Heal() override {
    // What was acknowledged happens by itself; else the client asks again.
    if (!acknowledged_) {
      EXPECT_OK(cluster_.Patiently([&] { return cluster_.Cancel(job_); }));
    }
    AwaitState(job_, v1::CANCELLED);
    EXPECT_OK(cluster_.Patiently([&] { return cluster_.Cancel(job_); })) << "a repeat is no error";
    ExpectNoOrphans(job_);
  }

 private:
  uint64_t job_ = 0;
  bool acknowledged_ = false;
};

// An agent and its rank die and stay away: the gang's other rank is stopped, the job waits, and
// runs again when the agent is back.
class WorkerLossOperation final : public Operation {
 public:
  using Operation::Operation;
  const char* name() const override { return "worker loss"; }
  void Prepare(int run) override {
    end_ = cluster_.Path(absl::StrCat("end-", run));
    job_ = SubmitForSure({.name = absl::StrCat("loss-", run),
                          .ranks = 2,
                          .script = {"hide", "progress train 1", "progress train 2",
                                     "await_file " + end_, "result succeeded"}});
    AwaitState(job_, v1::RUNNING);
  }
  void Run() override {
    cluster_.KillWorker("worker-2");
    cluster_.Watch(job_, [](const v1::JobSummary& job) { return job.state() == v1::PENDING; });
  }
  void Heal() override {
    AwaitState(job_, v1::PENDING);
    ExpectNoOrphans(job_, /*all_agents_live=*/false);
    ASSERT_NO_FATAL_FAILURE(cluster_.StartWorker("worker-2", 1));
    AwaitState(job_, v1::RUNNING);
    ExpectNoOrphans(job_);
    cluster_.Touch(end_);
    AwaitState(job_, v1::SUCCEEDED);
    ExpectNoOrphans(job_);
  }

 private:
  std::string end_;
  uint64_t job_ = 0;
};

// A rank writes a checkpoint, its agent lets it publish, the row becomes durable, the rank hears
// so.
class CheckpointOperation final : public Operation {
 public:
  using Operation::Operation;
  const char* name() const override { return "checkpoint commit"; }
  void Prepare(int run) override {
    go_ = cluster_.Path(absl::StrCat("go-", run));
    end_ = cluster_.Path(absl::StrCat("end-", run));
    job_ = SubmitForSure(
        {.name = absl::StrCat("save-", run),
         .script = {"hide", "progress train 1", "progress train 2", "await_file " + go_, "save 5",
                    "progress train 6", "await_file " + end_, "result succeeded"}});
    AwaitState(job_, v1::RUNNING);
  }
  void Run() override {
    cluster_.Touch(go_);
    cluster_.Watch(job_, [](const v1::JobSummary& job) { return job.step() >= 6; });
  }
  void Heal() override {
    // The rank went on only after its agent heard that the row is durable.
    cluster_.Touch(end_);
    AwaitState(job_, v1::SUCCEEDED);
    ExpectNoOrphans(job_);
    const auto answer = cluster_.Patiently([&] { return cluster_.Get(job_); });
    ASSERT_OK(answer);
    std::set<uint32_t> attempts;
    for (const v1::CheckpointInfo& checkpoint : answer->checkpoints()) {
      if (checkpoint.state() == v1::WRITING) continue;
      EXPECT_TRUE(checkpoint.state() == v1::COMMITTED || checkpoint.state() == v1::VERIFIED)
          << checkpoint.ShortDebugString();
      EXPECT_EQ(checkpoint.step(), 5);
      EXPECT_TRUE(attempts.insert(checkpoint.attempt()).second) << "committed twice";
      EXPECT_OK(
          VerifyCheckpoint(PosixFileSystem(), checkpoint.path(), checkpoint.manifest_sha256()));
    }
    EXPECT_EQ(attempts.count(answer->summary().attempt()), 1u)
        << "the attempt that finished had its commit acknowledged";
  }

 private:
  std::string go_, end_;
  uint64_t job_ = 0;
};

// A job from its submit to its end: started, followed, saved, cleared away.
class JobOperation final : public Operation {
 public:
  using Operation::Operation;
  const char* name() const override { return "whole job"; }
  void Prepare(int run) override {
    job_ = {.name = absl::StrCat("job-", run),
            .script = {"progress train 1", "print a line", "metrics 3", "await_acks",
                       "progress train 2", "save 5", "print another", "result succeeded"}};
    if (cluster_.with_trainer()) {
      job_.steps = 12;
      job_.save_every = 4;
    }
    id_ = 0;
  }
  void Run() override {
    id_ = SubmitForSure(job_);
    cluster_.Watch(id_, [](const v1::JobSummary& job) { return IsEnd(job.state()); });
  }
  void Heal() override {
    AwaitState(id_, v1::SUCCEEDED);
    ExpectNoOrphans(id_);
    const auto answer = cluster_.Patiently([&] { return cluster_.Get(id_); });
    ASSERT_OK(answer);
    int usable = 0;
    for (const v1::CheckpointInfo& checkpoint : answer->checkpoints()) {
      EXPECT_NE(checkpoint.state(), v1::CORRUPT) << checkpoint.ShortDebugString();
      if (checkpoint.state() != v1::COMMITTED && checkpoint.state() != v1::VERIFIED) continue;
      ++usable;
      EXPECT_OK(
          VerifyCheckpoint(PosixFileSystem(), checkpoint.path(), checkpoint.manifest_sha256()));
    }
    EXPECT_GT(usable, 0) << "it ended without a checkpoint";
  }

 private:
  CrashCluster::Job job_;
  uint64_t id_ = 0;
};

// One call before which the victim is to die.
struct CrashPoint {
  uint32_t kind = kAnyCall;
  uint64_t at = 0;
};

// Each kind of call that was made, in its middle, and where there are many at both ends.
std::vector<CrashPoint> PointsOf(const CrashCluster::Calls& calls) {
  std::vector<CrashPoint> points;
  for (uint32_t kind = 0; kind < kCrashCallCount; ++kind) {
    const uint64_t made = calls.of_kind[kind];
    if (made == 0) continue;
    points.push_back({kind, (made + 1) / 2});
    if (made < kManyCalls) continue;
    points.push_back({kind, 1});
    points.push_back({kind, made - made / 4});
  }
  return points;
}

class CrashSweep : public ::testing::Test {
 protected:
  // The cluster with its agents; how many slots each has.
  void Begin(const CrashTiming& timing, const std::vector<int>& slots,
             Victim victim = Victim::kController) {
    AdoptOrphans();
    cluster_ = std::make_unique<CrashCluster>(timing, victim);
    ASSERT_NO_FATAL_FAILURE(cluster_->StartController());
    for (size_t i = 0; i < slots.size(); ++i) {
      ASSERT_NO_FATAL_FAILURE(cluster_->StartWorker(absl::StrCat("worker-", i + 1), slots[i]));
    }
  }

  // One run with the death at that call. Gives whether it died, and the calls that were made.
  struct Outcome {
    bool killed = false;
    CrashCluster::Calls calls;
  };
  Outcome RunPoint(Operation& operation, const CrashPoint& point) {
    SCOPED_TRACE(absl::StrCat(operation.name(), ", killed at ",
                              point.kind == kAnyCall ? "call" : kCrashCalls[point.kind], " ",
                              point.at));
    operation.Prepare(++runs_);
    cluster_->Arm(point.kind, point.at);
    operation.Run();
    Outcome outcome;
    outcome.calls = cluster_->Disarm();
    outcome.killed = cluster_->killed();
    if (outcome.killed) {
      ++deaths_[cluster_->killed_before()];
      cluster_->Revive();
    }
    operation.Heal();
    return outcome;
  }

  void Sweep(Operation& operation) {
    const Outcome untouched = RunPoint(operation, {});
    ASSERT_FALSE(HasFailure());
    ASSERT_GT(untouched.calls.all, 0u) << "nothing was counted: is the library preloaded?";
    const char* mode = ::getenv("MUSTER_CHAOS");
    if (mode != nullptr && std::string(mode) == "whole") {
      SweepAll(operation);
    } else {
      SweepSome(operation, untouched.calls);
    }
    cluster_->StopController();
    EXPECT_EQ(cluster_->AuditDatabase(), 0u) << "the outbox was not delivered";
    ExpectRecordsOnce();
    std::vector<std::string> calls;
    for (const auto& [call, count] : deaths_) calls.push_back(absl::StrCat(count, " ", call));
    std::cout << "[ deaths   ] " << operation.name() << ": before " << absl::StrJoin(calls, ", ")
              << std::endl;
  }

  void SweepAll(Operation& operation) {
    int passed = 0;
    uint64_t killed = 0;
    for (uint64_t n = 1; passed < kUntouchedInARow && !HasFailure(); ++n) {
      const bool died = RunPoint(operation, {kAnyCall, n}).killed;
      passed = died ? 0 : passed + 1;
      killed += died ? 1 : 0;
    }
    std::cout << "[ points   ] " << operation.name() << ": " << killed
              << " of all crash points, until " << kUntouchedInARow
              << " runs in a row passed untouched" << std::endl;
  }

  // Dies at the point, or where a run turns out to be over before, in the middle of the calls of
  // that kind that a run makes for sure: the fewest of any that passed untouched.
  bool DieAt(Operation& operation, CrashPoint point, CrashCluster::Calls& fewest) {
    for (int tries = 0; tries < kTriesAtAPoint && point.at > 0; ++tries) {
      const Outcome outcome = RunPoint(operation, point);
      if (outcome.killed || HasFailure()) return outcome.killed;
      for (uint32_t kind = 0; kind < kCrashCallCount; ++kind)
        fewest.of_kind[kind] = std::min(fewest.of_kind[kind], outcome.calls.of_kind[kind]);
      point.at = (fewest.of_kind[point.kind] + 1) / 2;
    }
    return false;
  }

  void SweepSome(Operation& operation, const CrashCluster::Calls& untouched) {
    const std::vector<CrashPoint> points = PointsOf(untouched);
    CrashCluster::Calls fewest = untouched;
    uint64_t killed = 0;
    for (auto point = points.begin(); point != points.end() && !HasFailure(); ++point) {
      killed += DieAt(operation, *point, fewest) ? 1 : 0;
    }
    std::vector<std::string> missed;
    for (uint32_t kind = 0; kind < kCrashCallCount; ++kind) {
      const uint64_t made = fewest.of_kind[kind];
      if (made == 0 || deaths_.count(kCrashCalls[kind]) > 0) continue;
      missed.push_back(absl::StrCat(kCrashCalls[kind], " (", made, ")"));
      EXPECT_LT(made, kSurelyMade)
          << operation.name() << " never died before " << kCrashCalls[kind];
    }
    EXPECT_GE(2 * killed, points.size()) << "most runs passed untouched";
    std::cout << "[ points   ] " << operation.name() << ": " << killed << " deaths at "
              << points.size() << " points of about " << untouched.all
              << " calls; kinds never died before: "
              << (missed.empty() ? "none" : absl::StrJoin(missed, ", ")) << std::endl;
  }

  // Of all jobs of the sweep, in the rows themselves.
  void ExpectRecordsOnce() {
    size_t streams = 0;
    for (uint64_t job = 1; job <= cluster_->newest_job(); ++job) {
      SCOPED_TRACE(absl::StrCat("job ", job));
      const RawRows rows = ReadRawRows(cluster_->Path("controller/metrics.db"), job);
      ExpectEachRecordOnce(rows);
      for (const auto& [stream, chunks] : rows.logs) WholeText(rows, stream.first, stream.second);
      streams += rows.logs.size();
    }
    std::cout << "[ rows     ] " << streams << " logs of " << cluster_->newest_job()
              << " jobs, without holes or repeats" << std::endl;
  }

  std::unique_ptr<CrashCluster> cluster_;
  int runs_ = 0;
  std::map<std::string, int> deaths_;  // by the call before which it died
};

TEST_F(CrashSweep, Submit) {
  ASSERT_NO_FATAL_FAILURE(Begin({}, {2}));
  SubmitOperation operation(*cluster_);
  Sweep(operation);
}

TEST_F(CrashSweep, Assign) {
  ASSERT_NO_FATAL_FAILURE(Begin({}, {2}));
  AssignOperation operation(*cluster_);
  Sweep(operation);
}

TEST_F(CrashSweep, Cancel) {
  ASSERT_NO_FATAL_FAILURE(Begin({}, {2}));
  CancelOperation operation(*cluster_);
  Sweep(operation);
}

TEST_F(CrashSweep, WorkerLoss) {
  ASSERT_NO_FATAL_FAILURE(Begin({.heartbeat = absl::Milliseconds(500),
                                 .suspect = absl::Milliseconds(1500),
                                 .lost = absl::Milliseconds(2500),
                                 .grace = absl::Milliseconds(2500)},
                                {1, 1}));
  WorkerLossOperation operation(*cluster_);
  Sweep(operation);
}

TEST_F(CrashSweep, CheckpointCommit) {
  ASSERT_NO_FATAL_FAILURE(Begin({}, {1}));
  CheckpointOperation operation(*cluster_);
  Sweep(operation);
}

// The agent, with its one rank; it comes back and finds what it had begun.
TEST_F(CrashSweep, AgentInAWholeJob) {
  ASSERT_NO_FATAL_FAILURE(Begin({}, {1}, Victim::kAgent));
  JobOperation operation(*cluster_);
  Sweep(operation);
}

TEST_F(CrashSweep, AgentInACancel) {
  ASSERT_NO_FATAL_FAILURE(Begin({}, {2}, Victim::kAgent));
  CancelOperation operation(*cluster_);
  Sweep(operation);
}

TEST_F(CrashSweep, TrainerInAWholeJob) {
  if (::access((BinDir() + "/muster-trainer").c_str(), X_OK) != 0) {
    GTEST_SKIP() << "this build has no trainer";
  }
  ASSERT_NO_FATAL_FAILURE(Begin({}, {1}, Victim::kTrainer));
  JobOperation operation(*cluster_);
  Sweep(operation);
}

}  // namespace
}  // namespace muster::testing
