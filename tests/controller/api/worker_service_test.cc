#include "controller/api/worker_service.h"

#include <deque>
#include <functional>
#include <future>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/version.h"
#include "common/rpc/packed_queue.h"
#include "controller/api/convert/convert.h"
#include "controller/api/streams/control_stream.h"
#include "tests/controller/api/api_fixture.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::Hello GoodHello() {
  v1::Hello hello;
  hello.set_protocol_version(kProtocolVersion);
  hello.set_worker_name("w1");
  hello.set_incarnation(std::string(16, 'i'));
  hello.set_version("0.1.0");
  hello.set_pool("default");
  hello.set_advertise_address("127.0.0.1");
  v1::Slot* slot = hello.add_slots();
  slot->set_kind(v1::CPU);
  slot->set_device("cpu");
  return hello;
}

// A fake agent on its Control stream.
class Agent {
 public:
  explicit Agent(v1::WorkerService::Stub& stub) : stream_(stub.Control(&context_)) {}
  bool Send(const v1::WorkerMessage& message) { return stream_->Write(message); }
  bool SendHello(const v1::Hello& hello) {
    v1::WorkerMessage message;
    *message.mutable_hello() = hello;
    return Send(message);
  }
  // As it travels: maybe with `more`.
  v1::ControllerMessage ReceivePacked() {
    v1::ControllerMessage message;
    EXPECT_TRUE(stream_->Read(&message)) << "the stream has ended";
    return message;
  }
  v1::ControllerMessage Receive() {
    if (received_.empty()) {
      ForEachPacked(ReceivePacked(), [this](v1::ControllerMessage each) {
        each.clear_more();
        received_.push_back(std::move(each));
        return true;
      });
    }
    v1::ControllerMessage next = std::move(received_.front());
    received_.pop_front();
    return next;
  }
  // Reads to the end.
  absl::Status End() {
    v1::ControllerMessage message;
    while (stream_->Read(&message)) {
    }
    return FromGrpc(stream_->Finish());
  }
  absl::Status HangUp() {
    stream_->WritesDone();
    return End();
  }

 private:
  struct Context : grpc::ClientContext {
    Context() { AddToken(*this, kToken); }
  };
  Context context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WorkerMessage, v1::ControllerMessage>> stream_;
  std::deque<v1::ControllerMessage> received_;  // and not yet given to the test
};

v1::WorkerMessage RankExited(uint64_t event_seq) {
  v1::WorkerMessage message;
  message.set_event_seq(event_seq);
  v1::RankEvent* event = message.mutable_rank_event();
  event->mutable_fence()->set_job_id(3);
  event->mutable_fence()->set_attempt(2);
  event->mutable_fence()->set_generation(1);
  event->set_kind(v1::RankEvent::EXITED);
  event->set_failure_class(v1::OUT_OF_MEMORY);
  event->set_message("no memory");
  return message;
}

EventResult Failed(absl::Status status, bool fenced = false) {
  EventResult result;
  result.status = std::move(status);
  result.fenced = fenced;
  return result;
}

class WorkerServiceTest : public ApiFixture {
 protected:
  // A fresh agent behind its welcome.
  Agent* Connected() {
    agent_.emplace(*worker_stub_);
    EXPECT_TRUE(agent_->SendHello(GoodHello()));
    EXPECT_TRUE(agent_->Receive().has_welcome());
    return &*agent_;
  }

  std::optional<Agent> agent_;
};

TEST_F(WorkerServiceTest, AHelloIsWelcomedWithTheTermTheLeaseAndStaleRanks) {
  engine_.engine_options.heartbeat_interval = absl::Seconds(2);
  engine_.engine_options.lost_after = absl::Seconds(11);
  engine_.on_hello = [](const WorkerHello& hello) {
    EXPECT_EQ(hello.worker, "w1");
    EXPECT_EQ(hello.facts.slots.size(), 1u);
    EXPECT_EQ(hello.ranks.size(), 1u);
    EXPECT_EQ(hello.ranks[0].fence.job_id, 8u);
    EXPECT_EQ(hello.last_controller, "former");
    EXPECT_EQ(hello.last_term, 6u);
    EXPECT_TRUE(hello.takes_no_work);
    EventResult result;
    result.stale.push_back({8, 1, 0});
    return result;
  };
  v1::Hello hello = GoodHello();
  hello.add_ranks()->mutable_fence()->set_job_id(8);
  hello.set_last_controller("former");
  hello.set_last_term(6);
  hello.set_takes_no_work(true);
  Agent agent(*worker_stub_);
  ASSERT_TRUE(agent.SendHello(hello));
  const v1::ControllerMessage message = agent.Receive();
  EXPECT_EQ(message.welcome().term(), 7u);
  EXPECT_EQ(message.welcome().controller_id(), std::string(16, 'c'));
  EXPECT_EQ(message.welcome().heartbeat_interval_ms(), 2000);
  EXPECT_EQ(message.welcome().lease_ms(), 11000);
  ASSERT_EQ(message.welcome().stale_size(), 1);
  EXPECT_EQ(message.welcome().stale(0).job_id(), 8u);
  EXPECT_OK(agent.HangUp());
  engine_.WaitForDisconnect();
}

// An agent of protocol 1 would leave `more` unread.
TEST_F(WorkerServiceTest, AnotherProtocolVersionNamesBothAndTheWayOut) {
  for (const uint32_t version : {0u, 1u, kProtocolVersion + 1}) {
    v1::Hello hello = GoodHello();
    hello.set_protocol_version(version);
    Agent agent(*worker_stub_);
    ASSERT_TRUE(agent.SendHello(hello));
    EXPECT_THAT(agent.End(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                      AllOf(HasSubstr(absl::StrCat("speaks ", version)),
                                            HasSubstr(absl::StrCat("speaks ", kProtocolVersion)),
                                            HasSubstr("install"))));
  }
}

TEST_F(WorkerServiceTest, BadHellosAreRefused) {
  std::vector<v1::Hello> bad(9, GoodHello());
  // They go into Prometheus' list of targets, and into the ranks' environment.
  for (const char* address : {"no-port", ":9100", "host:0", "host:65536", "host:9100/x", "a b:9100",
                              "user@host:9100", "host:9100,other:1", "::1:9100", "[::1:9100"}) {
    bad.push_back(GoodHello());
    bad.back().set_metrics_address(address);
  }
  bad.push_back(GoodHello());
  bad.back().set_advertise_address("10.0.0.1\nX=1");
  bad[0].set_worker_name("Node.7");
  bad[1].set_incarnation("short");
  bad[2].set_pool("Not A Pool");
  bad[3].add_slots()->set_kind(v1::CPU);  // index 0 again
  bad[4].mutable_slots(0)->clear_kind();
  (*bad[5].mutable_labels())["x"] = std::string(300, 'x');
  bad[6].set_identity("short");
  bad[7].add_predecessors("short");
  for (int i = 0; i < 17; ++i) bad[8].add_predecessors(std::string(16, 'p'));
  for (const v1::Hello& hello : bad) {
    Agent agent(*worker_stub_);
    ASSERT_TRUE(agent.SendHello(hello));
    EXPECT_THAT(agent.End(), StatusIs(absl::StatusCode::kInvalidArgument)) << hello.DebugString();
  }
  Agent agent(*worker_stub_);
  v1::WorkerMessage heartbeat;
  heartbeat.mutable_heartbeat()->set_seq(1);
  ASSERT_TRUE(agent.Send(heartbeat));
  EXPECT_THAT(agent.End(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("hello")));
}

TEST_F(WorkerServiceTest, WhereAnAgentsMetricsAreIsSaidAsOthersReachIt) {
  for (const auto& [said, reached] : std::vector<std::pair<std::string, std::string>>{
           {"", ""},
           {"10.0.0.7:9100", "10.0.0.7:9100"},
           {"node-1.example:9100", "node-1.example:9100"},
           {"[fd00::7]:9100", "[fd00::7]:9100"},
           {"0.0.0.0:9100", "127.0.0.1:9100"},
           {"[::]:9100", "127.0.0.1:9100"}}) {
    v1::Hello hello = GoodHello();
    hello.set_metrics_address(said);
    const absl::StatusOr<WorkerHello> read = FromProto(hello);
    ASSERT_OK(read) << said;
    EXPECT_EQ(read->facts.metrics_address, reached);
  }
}

TEST_F(WorkerServiceTest, AHelloThatTheEngineRefusesEndsTheCallWithItsCode) {
  engine_.on_hello = [](const WorkerHello&) {
    return Failed(absl::AlreadyExistsError("worker w1: newer"));
  };
  Agent agent(*worker_stub_);
  ASSERT_TRUE(agent.SendHello(GoodHello()));
  EXPECT_THAT(agent.End(), StatusIs(absl::StatusCode::kAlreadyExists));
}

TEST_F(WorkerServiceTest, HeartbeatsAreAcknowledgedByTheirNumber) {
  Agent* agent = Connected();
  v1::WorkerMessage message;
  message.mutable_heartbeat()->set_seq(5);
  v1::RankStatus* rank = message.mutable_heartbeat()->add_ranks();
  rank->set_step(12);
  (*rank->mutable_latest())["loss"] = 0.5;
  ASSERT_TRUE(agent->Send(message));
  EXPECT_EQ(agent->Receive().heartbeat_ack().seq(), 5u);
  const auto seen = std::get<WorkerHeartbeat>(engine_.events().at(0));
  EXPECT_EQ(seen.worker, "w1");
  EXPECT_EQ(seen.ranks.at(0).step, 12);
  EXPECT_EQ(seen.ranks.at(0).latest.at("loss"), 0.5);
}

TEST_F(WorkerServiceTest, ADurableReportIsAcknowledged) {
  Agent* agent = Connected();
  ASSERT_TRUE(agent->Send(RankExited(1)));
  EXPECT_EQ(agent->Receive().event_ack().event_seq(), 1u);
  const auto report = std::get<RankReport>(engine_.events().at(0));
  EXPECT_EQ(report.event_seq, 1u);
  EXPECT_EQ(report.fence.attempt, 2u);
  EXPECT_EQ(report.kind, RankReport::Kind::kExited);
  EXPECT_EQ(report.failure_class, FailureClass::kOutOfMemory);
}

TEST_F(WorkerServiceTest, WhatComesInOneMessageIsPostedAtOnceAndInItsOrder) {
  Agent* agent = Connected();
  v1::WorkerMessage message;
  message.mutable_assignment_ack()->set_outbox_seq(5);
  *message.add_more() = RankExited(1);
  *message.add_more() = RankExited(2);
  message.add_more()->mutable_heartbeat()->set_seq(9);
  ASSERT_TRUE(agent->Send(message));
  while (!agent->Receive().has_heartbeat_ack()) {
  }
  EXPECT_THAT(engine_.posted_at_once(), ElementsAre(4));
  const std::vector<Event> events = engine_.events();
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(std::get<AssignmentAcked>(events[0]).outbox_seq, 5u);
  EXPECT_EQ(std::get<RankReport>(events[1]).event_seq, 1u);
  EXPECT_EQ(std::get<RankReport>(events[2]).event_seq, 2u);
  EXPECT_TRUE(std::holds_alternative<WorkerHeartbeat>(events[3]));
}

TEST_F(WorkerServiceTest, AMessagePackedOutOfBoundsEndsTheStreamAndIsNotTaken) {
  v1::WorkerMessage nested = RankExited(1);
  *nested.add_more() = RankExited(2);
  *nested.mutable_more(0)->add_more() = RankExited(3);
  v1::WorkerMessage many = RankExited(1);
  for (int i = 0; i <= kMostPacked; ++i) *many.add_more() = RankExited(2);
  for (const auto& [message, what] :
       {std::pair(nested, "more of its own"), std::pair(many, "at most 64 messages; got 65")}) {
    Agent* agent = Connected();
    ASSERT_TRUE(agent->Send(message));
    EXPECT_THAT(agent->End(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)));
    EXPECT_TRUE(engine_.events().empty());
  }
}

TEST_F(WorkerServiceTest, NothingTravelsWithAHello) {
  v1::WorkerMessage message;
  *message.mutable_hello() = GoodHello();
  *message.add_more() = RankExited(1);
  Agent agent(*worker_stub_);
  ASSERT_TRUE(agent.Send(message));
  EXPECT_THAT(agent.End(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("nothing else")));
  EXPECT_TRUE(engine_.events().empty());
}

TEST_F(WorkerServiceTest, WhatWasSaidBeforeABadMessageCounts) {
  Agent* agent = Connected();
  v1::WorkerMessage message = RankExited(1);
  *message.add_more()->mutable_hello() = GoodHello();
  *message.add_more() = RankExited(2);
  ASSERT_TRUE(agent->Send(message));
  EXPECT_THAT(agent->End(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("second hello")));
  ASSERT_EQ(engine_.events().size(), 1u);
  EXPECT_EQ(std::get<RankReport>(engine_.events()[0]).event_seq, 1u);
}

TEST_F(WorkerServiceTest, WhatWaitsForAnAgentTravelsTogetherAndInItsOrder) {
  Agent* agent = Connected();
  const std::shared_ptr<WorkerLink> link = engine_.WaitForLink();
  // It is being written until the agent reads: it is larger than what may be on the way.
  StartAssignment large;
  large.checkpoint_root = std::string(8 << 20, 'x');
  link->Send({1, large});
  for (uint64_t seq = 2; seq <= 4; ++seq) link->Send({seq, DeleteAssignment{5, "/x"}});
  EXPECT_EQ(agent->ReceivePacked().start_ranks().outbox_seq(), 1u);
  const v1::ControllerMessage message = agent->ReceivePacked();
  EXPECT_EQ(message.delete_checkpoint().outbox_seq(), 2u);
  ASSERT_EQ(message.more_size(), 2);
  EXPECT_EQ(message.more(0).delete_checkpoint().outbox_seq(), 3u);
  EXPECT_EQ(message.more(1).delete_checkpoint().outbox_seq(), 4u);
}

TEST_F(WorkerServiceTest, LongTextIsCutBetweenItsCharacters) {
  std::string text = "a";  // so that neither bound falls between two characters
  for (int i = 0; i < 2100; ++i) text += "é";
  Agent* agent = Connected();
  v1::WorkerMessage report = RankExited(1);
  report.mutable_rank_event()->set_message(text);
  ASSERT_TRUE(agent->Send(report));
  v1::WorkerMessage refusal;
  refusal.mutable_assignment_ack()->set_refusal(text);
  ASSERT_TRUE(agent->Send(refusal));
  v1::WorkerMessage notice;
  notice.mutable_notice()->set_message(text);
  ASSERT_TRUE(agent->Send(notice));
  EXPECT_OK(agent->HangUp());
  EXPECT_EQ(std::get<RankReport>(engine_.events().at(0)).message, text.substr(0, 4095));
  EXPECT_EQ(std::get<AssignmentAcked>(engine_.events().at(1)).refusal, text.substr(0, 1023));
  EXPECT_EQ(std::get<WorkerNotice>(engine_.events().at(2)).message, text.substr(0, 1023));
}

TEST_F(WorkerServiceTest, AReportThatIsNotDurableEndsTheStreamUnacknowledged) {
  engine_.on_event = [&](const Event&) { return Failed(absl::AbortedError("gap")); };
  Agent* agent = Connected();
  ASSERT_TRUE(agent->Send(RankExited(1)));
  EXPECT_THAT(agent->End(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("repeat")));
}

TEST_F(WorkerServiceTest, WithoutRoomOnTheDiskTheStreamGoesOnUntilThereIsSome) {
  std::atomic<bool> full = true;
  engine_.on_event = [&](const Event& event) {
    const bool needs_room = std::holds_alternative<RankReport>(event);
    return needs_room && full ? Failed(absl::ResourceExhaustedError("disk full")) : EventResult();
  };
  Agent* agent = Connected();
  ASSERT_TRUE(agent->Send(RankExited(1)));
  v1::WorkerMessage beat;
  for (uint64_t seq = 1; seq <= 5; ++seq) {
    beat.mutable_heartbeat()->set_seq(seq);
    ASSERT_TRUE(agent->Send(beat));
    EXPECT_EQ(agent->Receive().heartbeat_ack().seq(), seq) << "and nothing else is acknowledged";
  }
  full = false;
  // Its acknowledgement may be lost with the stream: on the next one both are said again.
  ASSERT_TRUE(agent->Send(RankExited(2)));
  EXPECT_THAT(agent->End(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("repeat")));
}

TEST_F(WorkerServiceTest, AFencedCommitIsAcknowledgedAndRefused) {
  Agent* agent = Connected();
  v1::WorkerMessage message;
  message.set_event_seq(1);
  v1::CheckpointEvent* event = message.mutable_checkpoint_event();
  event->set_kind(v1::CheckpointEvent::COMMIT);
  event->mutable_fence()->set_job_id(3);
  event->set_step(40);
  ASSERT_TRUE(agent->Send(message));
  v1::ControllerMessage ack = agent->Receive();
  EXPECT_EQ(ack.checkpoint_ack().step(), 40);
  EXPECT_EQ(ack.checkpoint_ack().error(), "");
  EXPECT_EQ(agent->Receive().event_ack().event_seq(), 1u);

  engine_.on_event = [](const Event&) {
    return Failed(absl::FailedPreconditionError("attempt 1 is over"), true);
  };
  message.set_event_seq(2);
  ASSERT_TRUE(agent->Send(message));
  ack = agent->Receive();
  EXPECT_THAT(ack.checkpoint_ack().error(), HasSubstr("attempt 1 is over"));
  EXPECT_EQ(agent->Receive().event_ack().event_seq(), 2u);
}

// A job whose rank 0 lives on agent w1.
std::shared_ptr<Job> JobOnW1() {
  auto attempt = std::make_shared<Attempt>();
  attempt->number = 1;
  attempt->generation = 1;
  attempt->ended = absl::InfiniteFuture();
  attempt->ranks.push_back({.rank = 0, .worker = "w1", .incarnation = std::string(16, 'i')});
  auto job = MakeJob(3, "digits");
  job->current = attempt;
  return job;
}

TEST_F(WorkerServiceTest, AGangsStoreIsForTheAgentsOfItsLiveRanks) {
  engine_.Publish([](Snapshot& s) { s.jobs.Put(3, JobOnW1()); });
  Agent* agent = Connected();
  v1::WorkerMessage good;
  v1::StoreRequest& request = *good.mutable_store_request();
  request.set_op(v1::StoreRequest::SET);
  request.mutable_fence()->set_job_id(3);
  request.mutable_fence()->set_attempt(1);
  request.mutable_fence()->set_generation(1);
  ASSERT_TRUE(agent->Send(good));
  EXPECT_EQ(agent->Receive().store_reply().error(), "");
  std::vector<v1::WorkerMessage> bad(4, good);
  bad[0].mutable_store_request()->mutable_fence()->set_job_id(4);
  bad[1].mutable_store_request()->mutable_fence()->set_attempt(2);
  bad[2].mutable_store_request()->mutable_fence()->set_generation(2);
  bad[3].mutable_store_request()->set_rank(1);
  for (const v1::WorkerMessage& message : bad) {
    ASSERT_TRUE(agent->Send(message));
    EXPECT_THAT(agent->Receive().store_reply().error(), HasSubstr("fenced"));
  }
  engine_.Publish([](Snapshot& s) {
    auto job = JobOnW1();
    auto elsewhere = std::make_shared<Attempt>(*job->current);
    elsewhere->ranks[0].worker = "w2";
    job->current = elsewhere;
    s.jobs.Put(3, job);
  });
  ASSERT_TRUE(agent->Send(good));
  EXPECT_THAT(agent->Receive().store_reply().error(), HasSubstr("fenced"));
}

TEST_F(WorkerServiceTest, AStoreWaitDoesNotBlockTheStream) {
  engine_.Publish([](Snapshot& s) { s.jobs.Put(3, JobOnW1()); });
  std::vector<StoreDone> waiting;
  engine_.on_store = [&](StoreOp op, StoreDone done) {
    if (op.kind == StoreOp::Kind::kGet) {
      waiting.push_back(std::move(done));
      return;
    }
    done({true, "", "", false});
    for (const StoreDone& waiter : waiting) waiter({true, op.value, "", false});
    waiting.clear();
  };
  Agent* agent = Connected();
  v1::WorkerMessage get;
  v1::Fence& fence = *get.mutable_store_request()->mutable_fence();
  fence.set_job_id(3);
  fence.set_attempt(1);
  fence.set_generation(1);
  get.mutable_store_request()->set_op(v1::StoreRequest::GET);
  get.mutable_store_request()->set_request_id(1);
  v1::WorkerMessage set = get;
  set.mutable_store_request()->set_op(v1::StoreRequest::SET);
  set.mutable_store_request()->set_request_id(2);
  set.mutable_store_request()->set_value("address");
  ASSERT_TRUE(agent->Send(get));
  ASSERT_TRUE(agent->Send(set));
  EXPECT_EQ(agent->Receive().store_reply().request_id(), 2u);
  const v1::ControllerMessage reply = agent->Receive();
  EXPECT_EQ(reply.store_reply().request_id(), 1u);
  EXPECT_EQ(reply.store_reply().value(), "address");
  v1::WorkerMessage unknown;
  unknown.mutable_store_request()->set_request_id(3);
  ASSERT_TRUE(agent->Send(unknown));
  EXPECT_THAT(agent->Receive().store_reply().error(), HasSubstr("no known kind"));
}

TEST_F(WorkerServiceTest, AssignmentsTravelWhole) {
  Agent* agent = Connected();
  const std::shared_ptr<WorkerLink> link = engine_.WaitForLink();
  StartAssignment start;
  start.fence = {3, 2, 1, 7};
  start.job_name = "digits";
  start.world_size = 2;
  start.ranks = {{1, 0, {4, 5}}};
  start.spec = "{}";
  start.checkpoint_root = "/ckpt/job-3";
  start.resume = {{"/ckpt/job-3/step-10", 10, "abc", true}};
  start.group_rank = 1;
  start.group_world_size = 2;
  link->Send({11, start});
  v1::ControllerMessage message = agent->Receive();
  EXPECT_EQ(message.start_ranks().outbox_seq(), 11u);
  EXPECT_EQ(message.start_ranks().fence().term(), 7u);
  EXPECT_EQ(message.start_ranks().ranks(0).slots(0), 4u);
  EXPECT_EQ(message.start_ranks().resume(0).step(), 10);
  EXPECT_EQ(message.start_ranks().group_rank(), 1u);
  EXPECT_EQ(message.start_ranks().group_world_size(), 2u);
  link->Send({12, StopAssignment{{3, 2, 1, 7}, StopMode::kSave, absl::Seconds(8), "preempted"}});
  message = agent->Receive();
  EXPECT_EQ(message.stop_ranks().mode(), v1::StopRanks::SAVE);
  EXPECT_EQ(message.stop_ranks().grace_ms(), 8000);
  link->Send({13, VerifyAssignment{5, "/x", "abc"}});
  EXPECT_EQ(agent->Receive().verify_checkpoint().checkpoint_id(), 5u);
  link->Send({14, DeleteAssignment{5, "/x"}});
  EXPECT_EQ(agent->Receive().delete_checkpoint().outbox_seq(), 14u);

  v1::WorkerMessage ack;
  ack.mutable_assignment_ack()->set_outbox_seq(11);
  ack.mutable_assignment_ack()->set_refusal("no such slot");
  ASSERT_TRUE(agent->Send(ack));
  link->Close(absl::AlreadyExistsError("another incarnation"));
  EXPECT_THAT(agent->End(), StatusIs(absl::StatusCode::kAlreadyExists));
  engine_.WaitForDisconnect();
  link->Send({15, DeleteAssignment{5, "/x"}});  // does nothing: the stream is gone
}

TEST_F(WorkerServiceTest, AnAgentThatDoesNotReadIsGivenUpByCountAndByBytes) {
  StartAssignment large;
  large.checkpoint_root = std::string(1 << 20, 'x');
  const std::pair<Assignment, size_t> floods[] = {
      {{1, large}, 2 * (ControlStream::kMaxQueuedBytes >> 20)},
      // Of a size that the connection does not take up while nobody reads, packed as they are.
      {{1, DeleteAssignment{5, std::string(2048, 'x')}}, 8 * ControlStream::kMaxQueued}};
  for (const auto& [assignment, count] : floods) {
    Agent* agent = Connected();
    const std::shared_ptr<WorkerLink> link = engine_.WaitForLink();
    for (size_t i = 0; i < count; ++i) link->Send(assignment);
    EXPECT_THAT(agent->End(),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("does not read")));
    engine_.WaitForDisconnect();
  }
}

TEST_F(WorkerServiceTest, ANoticeReachesTheEngine) {
  Agent* agent = Connected();
  v1::WorkerMessage message;
  message.mutable_notice()->set_message("spot");
  message.mutable_notice()->set_grace_ms(15000);
  message.mutable_notice()->set_withdrawn(true);
  message.set_event_seq(7);
  ASSERT_TRUE(agent->Send(message));
  EXPECT_EQ(agent->Receive().event_ack().event_seq(), 7u);
  message.clear_event_seq();  // an older agent's: nothing is acknowledged by its number
  ASSERT_TRUE(agent->Send(message));
  ASSERT_TRUE(agent->Send(RankExited(8)));
  EXPECT_EQ(agent->Receive().event_ack().event_seq(), 8u);
  EXPECT_OK(agent->HangUp());
  const auto notice = std::get<WorkerNotice>(engine_.events().at(0));
  EXPECT_EQ(notice.grace, absl::Seconds(15));
  EXPECT_EQ(notice.event_seq, 7u);
  EXPECT_TRUE(notice.withdrawn);
}

TEST_F(WorkerServiceTest, AStoppingControllerEndsTheStreams) {
  Agent* agent = Connected();
  workers_->Stop();
  EXPECT_THAT(agent->End(), StatusIs(absl::StatusCode::kUnavailable));
  Agent later(*worker_stub_);
  EXPECT_THAT(later.End(), StatusIs(absl::StatusCode::kUnavailable));
}

class BulkTest : public WorkerServiceTest {
 protected:
  void SetUp() override {
    WorkerServiceTest::SetUp();
    engine_.Publish([](Snapshot& s) {
      auto worker = std::make_shared<Worker>();
      worker->id = 1;
      worker->name = "w1";
      worker->incarnation = std::string(16, 'i');
      s.workers.Put(1, worker);
      auto ids = std::make_shared<std::map<std::string, uint64_t>>();
      (*ids)["w1"] = 1;
      s.worker_ids = ids;
    });
    AddToken(context_, kToken);
    stream_ = worker_stub_->Bulk(&context_);
  }
  v1::BulkBatch Batch(uint64_t id) {
    v1::BulkBatch batch;
    batch.set_batch_id(id);
    if (id == 1) {
      batch.mutable_hello()->set_worker_name("w1");
      batch.mutable_hello()->set_incarnation(std::string(16, 'i'));
    }
    v1::MetricRecord* record = batch.add_metrics();
    record->set_job_id(1);
    record->set_attempt(1);
    record->set_generation(1);
    record->set_seq(id);
    v1::MetricPoint* point = record->add_points();
    point->set_name("loss");
    point->set_step(id);
    point->set_value(0.5);
    return batch;
  }
  absl::Status End() {
    v1::BulkAck ack;
    while (stream_->Read(&ack)) {
    }
    return FromGrpc(stream_->Finish());
  }

  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::BulkBatch, v1::BulkAck>> stream_;
};

TEST_F(BulkTest, EveryBatchIsAcknowledgedAfterItsCommit) {
  constexpr uint64_t kBatches = 50;
  for (uint64_t id = 1; id <= kBatches; ++id) ASSERT_TRUE(stream_->Write(Batch(id)));
  v1::BulkAck ack;
  uint64_t last = 0;
  while (last < kBatches) {
    ASSERT_TRUE(stream_->Read(&ack));
    EXPECT_GT(ack.batch_id(), last);
    last = ack.batch_id();
    EXPECT_GE(ingest_->counts().points, last) << "acknowledged before it was stored";
  }
  stream_->WritesDone();
  EXPECT_OK(End());
  EXPECT_EQ(ingest_->counts().points, kBatches);
}

TEST_F(BulkTest, TheFirstBatchMustNameAKnownIncarnation) {
  v1::BulkBatch batch = Batch(1);
  batch.mutable_hello()->set_incarnation(std::string(16, 'x'));
  ASSERT_TRUE(stream_->Write(batch));
  EXPECT_THAT(End(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("Control")));
}

TEST_F(BulkTest, AStreamWithoutHelloIsRefused) {
  ASSERT_TRUE(stream_->Write(Batch(2)));
  EXPECT_THAT(End(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("hello")));
}

TEST_F(BulkTest, BatchesMustFollowOneAnother) {
  ASSERT_TRUE(stream_->Write(Batch(1)));
  ASSERT_TRUE(stream_->Write(Batch(3)));
  EXPECT_THAT(
      End(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("batch 3 came after batch 1")));
}

TEST_F(BulkTest, ARecordBeyondItsBoundsIsRefused) {
  v1::BulkBatch batch = Batch(1);
  for (int i = 0; i < 1100; ++i)
    *batch.mutable_metrics(0)->add_points() = batch.metrics(0).points(0);
  ASSERT_TRUE(stream_->Write(batch));
  EXPECT_THAT(End(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("points")));
}

TEST_F(BulkTest, SoManyGapsAreInOneBatch) {
  v1::BulkBatch batch = Batch(1);
  for (int i = 0; i < 4097; ++i) batch.add_gaps()->set_log_bytes(1);
  ASSERT_TRUE(stream_->Write(batch));
  EXPECT_THAT(End(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("gaps")));
}

TEST_F(BulkTest, AFencedAgentSendsNoMore) {
  ASSERT_TRUE(stream_->Write(Batch(1)));
  v1::BulkAck ack;
  ASSERT_TRUE(stream_->Read(&ack));
  engine_.Publish([](Snapshot& s) {
    auto second = std::make_shared<Worker>(*s.workers.Find(1));
    second->incarnation = std::string(16, 'j');
    s.workers.Put(1, second);
  });
  ASSERT_TRUE(stream_->Write(Batch(2)));
  EXPECT_THAT(End(), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(ingest_->counts().points, 1u);
}

TEST_F(BulkTest, AStoppedIngestLeavesTheBatchUnacknowledged) {
  ingest_->Stop();
  ASSERT_TRUE(stream_->Write(Batch(1)));
  v1::BulkAck ack;
  EXPECT_FALSE(stream_->Read(&ack));
  EXPECT_THAT(FromGrpc(stream_->Finish()), StatusIs(absl::StatusCode::kUnavailable));
}

// The commits of earlier reports are told by the applier's thread while later ones are being taken.
TEST_F(WorkerServiceTest, AReportIsNotReadOverWhileAnEarlierOneIsAnswered) {
  constexpr uint64_t kReports = 4000;
  Mutex mutex;
  CondVar came;
  std::deque<std::function<void()>> answers;
  bool over = false;
  engine_.answer = [&](std::function<void()> run) {
    MutexLock lock(mutex);
    answers.push_back(std::move(run));
    came.NotifyAll();
  };
  std::thread answering([&] {
    while (true) {
      std::function<void()> run;
      {
        MutexLock lock(mutex);
        while (answers.empty() && !over) came.Wait(mutex);
        if (answers.empty()) return;
        run = std::move(answers.front());
        answers.pop_front();
      }
      run();
    }
  });
  Agent* agent = Connected();
  std::thread sending([&] {
    for (uint64_t seq = 1; seq <= kReports; ++seq) {
      v1::WorkerMessage report = RankExited(seq);
      // Long enough that taking it apart takes a while.
      report.mutable_rank_event()->set_message(
          std::string(2000, static_cast<char>('a' + seq % 26)));
      if (!agent->Send(report)) break;
    }
  });
  for (uint64_t acked = 0; acked < kReports && !HasFailure();) {
    const uint64_t seq = agent->Receive().event_ack().event_seq();
    EXPECT_GT(seq, acked);  // one may stand for several
    acked = seq;
  }
  sending.join();
  EXPECT_OK(agent->HangUp());
  {
    MutexLock lock(mutex);
    over = true;
    came.NotifyAll();
  }
  answering.join();
  uint64_t seq = 0;
  for (const Event& event : engine_.events()) {
    const auto& report = std::get<RankReport>(event);
    ASSERT_EQ(report.event_seq, ++seq);
    ASSERT_EQ(report.message, std::string(2000, static_cast<char>('a' + seq % 26)));
  }
  EXPECT_EQ(seq, kReports);
}

}  // namespace
}  // namespace muster::controller
