// A program beside a rank, between the person's call and the agent's, with an agent and an engine
// that the test plays.
#include "controller/api/streams/exec_sessions.h"

#include <gmock/gmock.h>

#include <deque>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/controller/api/api_fixture.h"
#include "tests/support/subprocess.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;
using ::muster::testing::WaitUntil;
using ::testing::HasSubstr;

constexpr absl::Duration kAWhile = absl::Minutes(1);

// What the controller would send on the agent's Control stream.
class HeardLink final : public WorkerLink {
 public:
  void Send(const Assignment& assignment) override {
    MutexLock lock(mutex_);
    if (const auto* exec = std::get_if<ExecAssignment>(&assignment.body)) execs_.push_back(*exec);
  }
  void Close(const absl::Status&) override {}
  std::optional<ExecAssignment> Next(absl::Duration patience = kAWhile) {
    std::optional<ExecAssignment> next;
    WaitUntil(patience, [&] {
      MutexLock lock(mutex_);
      if (execs_.empty()) return false;
      next = execs_.front();
      execs_.pop_front();
      return true;
    });
    return next;
  }

 private:
  Mutex mutex_;
  std::deque<ExecAssignment> execs_ MUSTER_GUARDED_BY(mutex_);
};

class ExecSessionsTest : public ApiFixture {
 protected:
  using PersonStream = grpc::ClientReaderWriter<v1::ExecRequest, v1::ExecOutput>;
  using AgentStream = grpc::ClientReaderWriter<v1::ExecOutput, v1::ExecInput>;

  void SetUp() override {
    ApiFixture::SetUp();
    exec_stub_ = v1::ExecService::NewStub(channel_);
    engine_.Connect({}, link_, [](const EventResult&) {});
    PutRank(RankState::kRunning);
  }
  void PutRank(RankState state, bool allows_commands = true) {
    engine_.Publish([&](Snapshot& s) {
      auto job = MakeJob(1, "digits");
      job->state = JobState::kRunning;
      auto attempt = std::make_shared<Attempt>();
      attempt->job_id = 1;
      attempt->number = 2;
      attempt->term = 7;
      attempt->ranks.resize(2);
      for (uint32_t i = 0; i < 2; ++i) {
        attempt->ranks[i].rank = i;
        attempt->ranks[i].worker = "w1";
        attempt->ranks[i].incarnation = "life";
        attempt->ranks[i].state = state;
      }
      job->current = attempt;
      s.jobs.Put(1, job);
      auto worker = std::make_shared<Worker>();
      worker->name = "w1";
      worker->facts.allows_commands = allows_commands;
      s.workers.Put(1, worker);
      s.worker_ids = std::make_shared<const std::map<std::string, uint64_t>>(
          std::map<std::string, uint64_t>{{"w1", 1}});
    });
  }
  static v1::ExecRequest Start(const std::string& program = "sh", uint32_t rank = 1) {
    v1::ExecRequest request;
    request.mutable_start()->mutable_job()->set_id(1);
    request.mutable_start()->set_rank(rank);
    request.mutable_start()->add_argv(program);
    return request;
  }
  struct Person {
    grpc::ClientContext context;
    std::unique_ptr<PersonStream> stream;
    absl::Status End() {
      v1::ExecOutput output;
      while (stream->Read(&output)) {
      }
      return FromGrpc(stream->Finish());
    }
  };
  std::unique_ptr<Person> Ask(const v1::ExecRequest& first) {
    auto person = std::make_unique<Person>();
    AddToken(person->context, kToken);
    person->stream = exec_stub_->Exec(&person->context);
    person->stream->Write(first);
    return person;
  }
  struct Agent {
    grpc::ClientContext context;
    std::unique_ptr<AgentStream> stream;
    bool is_accepted = false;
    void Say(const std::string& text) {
      v1::ExecOutput output;
      output.set_stdout(text);
      stream->Write(output);
    }
    void End(int code) {
      v1::ExecOutput output;
      output.mutable_end()->set_exit_code(code);
      stream->Write(output);
      stream->WritesDone();
    }
    absl::Status Finish() {
      v1::ExecInput input;
      while (stream->Read(&input)) {
      }
      return FromGrpc(stream->Finish());
    }
  };
  std::unique_ptr<Agent> Attach(const std::string& session) {
    auto agent = std::make_unique<Agent>();
    AddToken(agent->context, kToken);
    agent->stream = worker_stub_->Exec(&agent->context);
    v1::ExecOutput first;
    first.set_session(session);
    agent->stream->Write(first);
    v1::ExecInput accepted;
    agent->is_accepted = agent->stream->Read(&accepted) && accepted.accepted();
    return agent;
  }

  const std::shared_ptr<HeardLink> link_ = std::make_shared<HeardLink>();
  std::unique_ptr<v1::ExecService::Stub> exec_stub_;
};

TEST_F(ExecSessionsTest, PassesWhatEitherSaysUntilTheProgramHasEnded) {
  v1::ExecRequest start = Start();
  start.mutable_start()->mutable_terminal()->set_rows(24);
  start.mutable_start()->set_terminal_type("xterm");
  const auto person = Ask(start);
  const auto told = link_->Next();
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->fence.attempt, 2u);
  EXPECT_EQ(told->fence.term, 7u);
  EXPECT_EQ(told->rank, 1u);
  EXPECT_EQ(told->argv, std::vector<std::string>{"sh"});
  ASSERT_TRUE(told->terminal.has_value());
  EXPECT_EQ(told->terminal->rows, 24u);
  EXPECT_EQ(told->session.size(), 16u);

  const auto agent = Attach(told->session);
  EXPECT_TRUE(agent->is_accepted) << "before anything that the person says";
  agent->Say("ready\n");
  v1::ExecOutput output;
  ASSERT_TRUE(person->stream->Read(&output));
  EXPECT_EQ(output.stdout(), "ready\n");
  v1::ExecRequest request;
  request.mutable_input()->set_stdin("ls\n");
  ASSERT_TRUE(person->stream->Write(request));
  v1::ExecInput input;
  ASSERT_TRUE(agent->stream->Read(&input));
  EXPECT_EQ(input.stdin(), "ls\n");
  agent->End(3);
  ASSERT_TRUE(person->stream->Read(&output));
  EXPECT_EQ(output.end().exit_code(), 3);
  EXPECT_OK(person->End());
  EXPECT_OK(agent->Finish());
}

TEST_F(ExecSessionsTest, WhatAPersonDoesNotReadStopsTheProgramOnly) {
  const auto person = Ask(Start());
  const auto agent = Attach(link_->Next()->session);
  constexpr int kPieces = 2000;
  std::atomic<int> written = 0;
  std::thread writer([&] {
    for (; written < kPieces; ++written) agent->Say(std::string(32 << 10, 'x'));
    agent->End(0);
  });
  // It comes to a stop: 62 MiB do not wait here.
  int before = -1;
  EXPECT_TRUE(WaitUntil(kAWhile, [&] {
    absl::SleepFor(absl::Milliseconds(300));
    return std::exchange(before, written.load()) == written && written > 0;
  }));
  EXPECT_LT(written, kPieces / 2);
  size_t bytes = 0;
  v1::ExecOutput output;
  while (person->stream->Read(&output)) bytes += output.stdout().size();
  EXPECT_OK(FromGrpc(person->stream->Finish()));
  EXPECT_EQ(bytes, size_t{kPieces} * (32 << 10));
  writer.join();
  EXPECT_OK(agent->Finish());
}

// The place of a program that has ended is free, however long the person takes to read the rest.
TEST_F(ExecSessionsTest, AProgramThatHasEndedHoldsNoPlace) {
  const auto person = Ask(Start());
  const std::string session = link_->Next()->session;
  const auto agent = Attach(session);
  for (int i = 0; i < 7; ++i) agent->Say(std::string(64 << 10, 'x'));
  agent->End(0);
  EXPECT_TRUE(WaitUntil(
      kAWhile, [&] { return Attach(session)->Finish().code() == absl::StatusCode::kNotFound; }));
  EXPECT_OK(agent->Finish()) << "nor is the agent held up";
  size_t bytes = 0;
  v1::ExecOutput output;
  while (person->stream->Read(&output)) bytes += output.stdout().size();
  EXPECT_OK(FromGrpc(person->stream->Finish()));
  EXPECT_EQ(bytes, size_t{7} * (64 << 10));
}

TEST_F(ExecSessionsTest, TheEndOfEitherCallIsThatOfTheOther) {
  auto person = Ask(Start());
  auto agent = Attach(link_->Next()->session);
  agent->Say("x");
  v1::ExecOutput output;
  ASSERT_TRUE(person->stream->Read(&output));
  person->context.TryCancel();
  EXPECT_THAT(agent->Finish(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(person->End(), StatusIs(absl::StatusCode::kCancelled));

  person = Ask(Start());
  agent = Attach(link_->Next()->session);
  agent->Say("x");
  ASSERT_TRUE(person->stream->Read(&output));
  agent->context.TryCancel();
  EXPECT_THAT(person->End(), StatusIs(absl::StatusCode::kUnavailable,
                                      HasSubstr("worker w1: the call over which the program ran")));
}

TEST_F(ExecSessionsTest, ASessionIsOneWorkersAndOnce) {
  const auto person = Ask(Start());
  const std::string session = link_->Next()->session;
  EXPECT_THAT(Attach("another")->Finish(), StatusIs(absl::StatusCode::kNotFound));
  const auto agent = Attach(session);
  agent->Say("x");
  v1::ExecOutput output;
  ASSERT_TRUE(person->stream->Read(&output));
  EXPECT_THAT(Attach(session)->Finish(), StatusIs(absl::StatusCode::kFailedPrecondition));
  agent->Say("y");
  ASSERT_TRUE(person->stream->Read(&output)) << "the first one goes on";
  EXPECT_EQ(output.stdout(), "y");
  EXPECT_THAT(exec_sessions_.Find(session, PeerNames({"w2"})).status(),
              StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_OK(exec_sessions_.Find(session, PeerNames({"w1"})));
}

TEST_F(ExecSessionsTest, WhatCannotBeIsSaid) {
  EXPECT_THAT(Ask(Start("sh", 2))->End(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has ranks 0 to 1")));
  EXPECT_THAT(Ask(Start(""))->End(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("names no program")));
  EXPECT_THAT(Ask(Start(std::string("a\0b", 3)))->End(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("NUL")));
  EXPECT_THAT(Ask(v1::ExecRequest())->End(), StatusIs(absl::StatusCode::kInvalidArgument));
  v1::ExecRequest unknown = Start();
  unknown.mutable_start()->mutable_job()->set_id(9);
  EXPECT_THAT(Ask(unknown)->End(), StatusIs(absl::StatusCode::kNotFound));

  PutRank(RankState::kExited);
  EXPECT_THAT(Ask(Start())->End(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("does not run")));
  PutRank(RankState::kRunning, /*allows_commands=*/false);
  EXPECT_THAT(Ask(Start())->End(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--allow-commands")));
  PutRank(RankState::kRunning);
  engine_.Disconnect("w1", "life", nullptr);
  EXPECT_THAT(Ask(Start())->End(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("not connected")));
}

TEST_F(ExecSessionsTest, WhatAnAgentSaysIsBounded) {
  const auto person = Ask(Start());
  const auto agent = Attach(link_->Next()->session);
  agent->Say(std::string((64 << 10) + 1, 'x'));
  EXPECT_THAT(agent->Finish(), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(person->End(), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(ExecSessionsTest, NobodyHasMoreThanAShare) {
  std::vector<std::unique_ptr<Person>> people;
  for (int i = 0; i < 8; ++i) {
    people.push_back(Ask(Start()));
    ASSERT_TRUE(link_->Next().has_value());
  }
  EXPECT_THAT(Ask(Start())->End(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("you run 8 programs")));
  people.back()->context.TryCancel();
  EXPECT_THAT(people.back()->End(), StatusIs(absl::StatusCode::kCancelled));
  // Its place is free once the controller has seen it go.
  EXPECT_TRUE(WaitUntil(kAWhile, [&] {
    const auto again = Ask(Start());
    const bool taken = link_->Next(absl::Seconds(2)).has_value();
    again->context.TryCancel();
    return taken;
  }));
}

}  // namespace
}  // namespace muster::controller
