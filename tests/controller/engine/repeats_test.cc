// Every mutation that can come twice, comes twice: the second one changes nothing. A client repeats
// what was not answered; an agent repeats what was not acknowledged, also after a restart of the
// controller; a loop may decide what it proposed before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_join.h"
#include "controller/model/ledger_rules.h"
#include "tests/support/controller_fixture.h"
#include "tests/support/model_invariants.h"

namespace muster::controller {
namespace {

using ::muster::testing::DescribeModel;
using ::muster::testing::IsOk;
using ::muster::testing::ModelFaults;

class RepeatsTest : public ::muster::testing::ControllerFixture {
 protected:
  // Applies it, and again: in the same life, and in the next one of the controller.
  EventResult Twice(const Event& event) {
    covered_.insert(event.index());
    const EventResult first = Apply(event);
    const std::string once = DescribeModel(*snapshot());
    const EventResult second = Apply(event);
    EXPECT_EQ(DescribeModel(*snapshot()), once) << "event kind " << event.index();
    EXPECT_EQ(second.status.code(), first.status.code()) << second.status;
    EXPECT_EQ(second.job_id, first.job_id);
    EXPECT_EQ(::testing::PrintToString(ModelFaults(*snapshot())), "{}");
    return first;
  }
  // For what an agent must have acknowledged across a restart of the controller.
  EventResult TwiceAcrossARestart(Agent& agent, const Event& event) {
    const EventResult first = Twice(event);
    const std::string once = DescribeModel(*snapshot());
    Restart();
    EXPECT_OK(Connect(agent).status);
    const EventResult again = Apply(event);
    EXPECT_EQ(again.status.code(), first.status.code()) << again.status;
    EXPECT_EQ(DescribeModel(*snapshot()), once) << "event kind " << event.index();
    return first;
  }

  std::set<size_t> covered_;
};

TEST_F(RepeatsTest, EveryKindOfMutation) {
  Agent one = ConnectNew("worker-1", 2);
  const WorkerHello hello{.worker = one.name,
                          .incarnation = one.incarnation,
                          .stream = 99,
                          .facts = one.facts,
                          .last_term = 1};
  EXPECT_OK(Twice(hello).status);
  Connect(one);

  // People. A second worker, drained, gets nothing of all this.
  Agent two = ConnectNew("worker-2", 1);
  EXPECT_OK(
      Twice(CordonWorker{.worker = two.name, .reason = "a test", .actor = "user:ann"}).status);
  const SubmitJob submit{.settings = ::muster::testing::MakeSettings({.min_ranks = 2}),
                         .owner = "ann",
                         .idempotency_key = "once"};
  const uint64_t id = Twice(submit).job_id;
  const SubmitJob other{.settings = ::muster::testing::MakeSettings({.min_ranks = 1}),
                        .owner = "ann",
                        .idempotency_key = "other"};
  const uint64_t waiting = Twice(other).job_id;
  for (const auto verb : {ControlJob::Verb::kHold, ControlJob::Verb::kRelease}) {
    EXPECT_OK(Twice(ControlJob{.verb = verb, .job_id = waiting, .actor = "user:ann"}).status);
  }
  UpdateJob update{.job_id = waiting, .actor = "user:ann"};
  update.priority = -5;  // the running gang need not make way for it
  EXPECT_OK(Twice(update).status);
  Twice(Findings{{LimitPassed{waiting}}});
  EXPECT_OK(Twice(CancelJob{.job_id = waiting, .actor = "user:ann"}).status);

  SetProject project{.project = "vision", .actor = "user:ann"};
  project.weight = 2;
  EXPECT_OK(Twice(project).status);

  // The plan that placed the gang, proposed once more.
  Plan plan;
  plan.place.push_back(
      {.job_id = id, .attempt = 1, .ranks = {{"worker-1", {0}, 0}, {"worker-1", {1}, 1}}});
  Twice(ApplyPlan{plan});
  EXPECT_EQ(job(id).attempt, 1u);

  // An agent's words.
  const uint64_t seq = one.link->sent.front().seq;
  const auto start = Take<StartAssignment>(one);
  EXPECT_OK(
      Twice(AssignmentAcked{.worker = one.name, .incarnation = one.incarnation, .outbox_seq = seq})
          .status);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    one.alive.push_back({.fence = start.fence, .rank = rank, .pid = 100 + rank, .phase = "start"});
    for (const auto kind : {RankReport::Kind::kStarted, RankReport::Kind::kRunning}) {
      EXPECT_OK(TwiceAcrossARestart(one, MakeReport(one, start.fence, rank, kind)).status);
    }
  }
  EXPECT_OK(Twice(WorkerHeartbeat{one.name, one.incarnation, one.alive}).status);
  for (const auto kind : {CheckpointReport::Kind::kBegin, CheckpointReport::Kind::kCommit,
                          CheckpointReport::Kind::kFailed, CheckpointReport::Kind::kCorrupt,
                          CheckpointReport::Kind::kUnread}) {
    CheckpointReport report = MakeCommit(one, start.fence, 5);
    report.kind = kind;
    if (kind == CheckpointReport::Kind::kFailed) report.step = 6;
    const bool of_loading =
        kind == CheckpointReport::Kind::kCorrupt || kind == CheckpointReport::Kind::kUnread;
    if (of_loading) report.path += "-unknown";
    EXPECT_OK(TwiceAcrossARestart(one, report).status);
  }
  EXPECT_EQ(job(id).checkpoints.size(), 1u);

  // Rereads of checkpoints: asked for by a person, by the loop, and answered.
  EXPECT_OK(Twice(RequestVerify{1}).status);
  Twice(AssignCheckpointWork{{{.kind = AssignmentKind::kVerify,
                               .checkpoint_id = 1,
                               .worker = one.name,
                               .reason = "a test"}}});
  const auto verify = Take<VerifyAssignment>(one);
  EXPECT_EQ(verify.checkpoint_id, 1u);
  EXPECT_OK(TwiceAcrossARestart(one, VerifyReport{.worker = one.name,
                                                  .incarnation = one.incarnation,
                                                  .event_seq = ++one.event_seq,
                                                  .outbox_seq = last_seq_,
                                                  .checkpoint_id = 1,
                                                  .ok = true})
                .status);
  EXPECT_EQ(snapshot()->FindCheckpoint(1)->rereads, 1u);
  for (const auto verb : {ControlCheckpoint::Verb::kPin, ControlCheckpoint::Verb::kUnpin}) {
    EXPECT_OK(
        Twice(ControlCheckpoint{.verb = verb, .checkpoint_id = 1, .actor = "user:ann"}).status);
  }
  EXPECT_OK(TwiceAcrossARestart(one, DeleteReport{.worker = one.name,
                                                  .incarnation = one.incarnation,
                                                  .event_seq = ++one.event_seq,
                                                  .outbox_seq = 77,
                                                  .checkpoint_id = 1,
                                                  .ok = true})
                .status);

  // A checkpoint root that a job of another pool waits for: who finds out, and what is settled.
  JobSettings rooted = *::muster::testing::MakeSettings({.root = "/shared"});
  rooted.needs.pools = {{.name = "elsewhere", .after = {}}};
  rooted.needs.wait_for_capacity = true;
  Twice(SubmitJob{.settings = std::make_shared<const JobSettings>(rooted),
                  .owner = "ann",
                  .idempotency_key = "rooted"});
  ReconcileRoots tend;
  tend.claims = {{.path = "/shared", .worker = two.name}};
  tend.settle = {{.path = "/shared", .identity = "abc", .worker = two.name}};
  tend.asks = {{.worker = two.name, .stream = worker(two.name).pulse.stream, .roots = {}}};
  EXPECT_OK(Twice(tend).status);
  EXPECT_EQ(snapshot()->IdentityOf("/shared"), "abc");

  // What the loops say of the gang.
  Twice(Findings{{StartTimedOut{
      .job_id = id, .attempt = 1, .waited = absl::Minutes(5), .got_on_at = clock_.SinceBoot()}}});
  EXPECT_EQ(state(id), JobState::kRunning) << "it runs long since";
  const ControlJob requeue{
      .verb = ControlJob::Verb::kRequeue, .job_id = id, .actor = "user:ann", .request_id = "once"};
  EXPECT_OK(TwiceAcrossARestart(one, requeue).status);
  Twice(Findings{{RankHung{.job_id = id,
                           .attempt = 1,
                           .rank = 0,
                           .silent_for = absl::Minutes(10),
                           .progress_at = clock_.SinceBoot()}}});
  EXPECT_EQ(state(id), JobState::kRecovering);
  RankReport unkillable = MakeReport(one, start.fence, 1, RankReport::Kind::kUnkillable);
  EXPECT_OK(TwiceAcrossARestart(one, unkillable).status);
  RankReport exit = MakeReport(one, start.fence, 0, RankReport::Kind::kExited);
  exit.signal = 9;
  one.alive.erase(one.alive.begin());
  EXPECT_OK(TwiceAcrossARestart(one, exit).status);

  // What becomes of the worker.
  EXPECT_OK(TwiceAcrossARestart(one, WorkerNotice{.worker = one.name,
                                                  .incarnation = one.incarnation,
                                                  .event_seq = ++one.event_seq,
                                                  .message = "going",
                                                  .grace = absl::Seconds(20)})
                .status);
  // A former word that comes late does not undo what was said after it.
  WorkerNotice withdrawn{.worker = one.name,
                         .incarnation = one.incarnation,
                         .event_seq = ++one.event_seq,
                         .withdrawn = true};
  EXPECT_OK(TwiceAcrossARestart(one, withdrawn).status);
  EXPECT_OK(Apply(WorkerNotice{.worker = one.name,
                               .incarnation = one.incarnation,
                               .event_seq = one.event_seq - 1,
                               .message = "going"})
                .status);
  EXPECT_FALSE(worker(one.name).draining);
  const absl::Duration last_seen_at = worker(one.name).pulse.last_seen_at;
  Twice(Findings{{WorkerSilent{.worker = one.name,
                               .incarnation = one.incarnation,
                               .presence = Presence::kLost,
                               .last_seen_at = last_seen_at}}});
  // It was lost with a rank.
  Twice(Findings{{WorkerExpired{.worker = one.name, .last_seen_at = last_seen_at}}});
  EXPECT_NE(snapshot()->FindWorker(one.name), nullptr);
  EXPECT_OK(Twice(CordonWorker{.worker = two.name, .cordoned = false, .actor = "user:ann"}).status);
  Twice(WorkerDisconnected{.worker = one.name, .incarnation = one.incarnation, .stream = 99});

  const SubmitJob brief{.settings = ::muster::testing::MakeSettings(
                            {.min_ranks = 9, .wait_for_capacity = true, .name = "brief"}),
                        .owner = "ann",
                        .idempotency_key = "brief"};
  const uint64_t ended = Apply(brief).job_id;
  EXPECT_OK(Cancel(ended));
  const ArchivedJob rows{.job = snapshot()->jobs.Share(ended), .checkpoints = {}};
  EXPECT_OK(Twice(ArchiveJobs{.groups = {{rows}}}).status);
  EXPECT_EQ(snapshot()->FindJob(ended), nullptr);
  EXPECT_OK(Twice(RestoreJobs{.jobs = {rows}}).status);
  EXPECT_NE(snapshot()->FindJob(ended), nullptr);

  const ForgetWorker forget{.worker = one.name, .actor = "user:ann", .gone = true};
  covered_.insert(Event(forget).index());
  EXPECT_OK(Apply(forget).status);
  const std::string forgotten = DescribeModel(*snapshot());
  EXPECT_TRUE(absl::IsNotFound(Apply(forget).status)) << "the second one says so";
  EXPECT_EQ(DescribeModel(*snapshot()), forgotten);

  std::vector<size_t> missing;
  for (size_t kind = 0; kind < std::variant_size_v<Event>; ++kind) {
    if (covered_.count(kind) == 0) missing.push_back(kind);
  }
  EXPECT_TRUE(missing.empty())
      << "no repeat here of the alternatives of Event (model/types/events.h) "
      << absl::StrJoin(missing, ", ");
}

}  // namespace
}  // namespace muster::controller
