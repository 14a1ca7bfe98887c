// SubmitJobs: many submits over one stream, each with its own outcome.
#include "controller/api/streams/submit_stream.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/version.h"
#include "tests/controller/api/api_fixture.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;
using ::testing::HasSubstr;

v1::SubmitRequest Good(const std::string& name) {
  v1::SubmitRequest request;
  request.set_protocol_version(kProtocolVersion);
  request.set_owner("ada");
  request.set_idempotency_key("key-" + name);
  v1::JobSpec* spec = request.mutable_spec();
  spec->set_name(name);
  spec->mutable_train()->mutable_model()->mutable_mlp();
  spec->mutable_train()->mutable_data()->mutable_synthetic();
  spec->mutable_train()->set_batch_size(32);
  spec->mutable_train()->set_steps(100);
  return request;
}

v1::SubmitJobsRequest MessageOf(const std::vector<v1::SubmitRequest>& submits) {
  v1::SubmitJobsRequest message;
  for (const v1::SubmitRequest& submit : submits) *message.add_submits() = submit;
  return message;
}

class SubmitStreamTest : public ApiFixture {
 protected:
  SubmitStreamTest() {
    // Jobs get 1, 2, 3, ...
    engine_.on_event = [this](const Event& event) {
      EXPECT_TRUE(std::holds_alternative<SubmitJob>(event));
      EventResult result;
      result.job_id = ++last_id_;
      return result;
    };
  }
  void TearDown() override {
    if (stream_ != nullptr) context_.TryCancel();
    stream_.reset();
    ApiFixture::TearDown();
  }
  void Open() { stream_ = stub_->SubmitJobs(&context_); }
  v1::SubmitJobsResponse Answer() {
    v1::SubmitJobsResponse response;
    EXPECT_TRUE(stream_->Read(&response));
    return response;
  }
  // What the stream ends with, after the answers that are on their way.
  absl::Status End() {
    v1::SubmitJobsResponse response;
    while (stream_->Read(&response)) {
    }
    const absl::Status status = FromGrpc(stream_->Finish());
    stream_.reset();
    return status;
  }

  std::atomic<uint64_t> last_id_ = 0;
  Context context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::SubmitJobsRequest, v1::SubmitJobsResponse>> stream_;
};

// Answers to events, kept until the test gives them.
class HeldAnswers {
 public:
  std::function<void(std::function<void()>)> Hold() {
    return [this](std::function<void()> run) {
      MutexLock lock(mutex_);
      held_.push_back(std::move(run));
      most_ = std::max(most_, held_.size());
      changed_.NotifyAll();
    };
  }
  void WaitFor(size_t count) {
    MutexLock lock(mutex_);
    while (held_.size() < count) changed_.Wait(mutex_);
  }
  void GiveFirst() {
    std::function<void()> run;
    {
      MutexLock lock(mutex_);
      while (held_.empty()) changed_.Wait(mutex_);
      run = std::move(held_.front());
      held_.pop_front();
    }
    run();
  }
  void GiveLast() {
    std::function<void()> run;
    {
      MutexLock lock(mutex_);
      run = std::move(held_.back());
      held_.pop_back();
    }
    run();
  }
  size_t most() {
    MutexLock lock(mutex_);
    return most_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> held_ MUSTER_GUARDED_BY(mutex_);
  size_t most_ MUSTER_GUARDED_BY(mutex_) = 0;
};

TEST_F(SubmitStreamTest, EachSubmitIsAnsweredInItsPlace) {
  Open();
  ASSERT_TRUE(stream_->Write(MessageOf({Good("a"), Good("b"), Good("c")})));
  ASSERT_TRUE(stream_->Write(MessageOf({Good("d")})));
  const v1::SubmitJobsResponse first = Answer();
  ASSERT_EQ(first.outcomes_size(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(first.outcomes(i).code(), 0);
    EXPECT_EQ(first.outcomes(i).job_id(), i + 1u);
    EXPECT_EQ(first.outcomes(i).jobs(), 1u);
  }
  const v1::SubmitJobsResponse second = Answer();
  ASSERT_EQ(second.outcomes_size(), 1);
  EXPECT_EQ(second.outcomes(0).job_id(), 4u);
  stream_->WritesDone();
  EXPECT_OK(End());
  const std::vector<Event> events = engine_.events();
  ASSERT_EQ(events.size(), 4u);
  const auto& submit = std::get<SubmitJob>(events[1]);
  EXPECT_EQ(submit.settings->name, "b");
  EXPECT_EQ(submit.settings->checkpoint_root, "/ckpt");
  EXPECT_EQ(submit.owner, "ada");
  EXPECT_EQ(submit.idempotency_key, "key-b");
}

TEST_F(SubmitStreamTest, OneBadSubmitConcernsNobodyElse) {
  engine_.on_event = [this](const Event& event) {
    EventResult result;
    if (std::get<SubmitJob>(event).settings->name == "huge") {
      result.status = absl::FailedPreconditionError("refused: no worker has so many slots");
    } else {
      result.job_id = ++last_id_;
    }
    return result;
  };
  v1::SubmitRequest bad = Good("bad");
  bad.mutable_spec()->mutable_train()->set_batch_size(0);
  v1::SubmitRequest old = Good("old");
  old.set_protocol_version(kProtocolVersion + 1);
  v1::SubmitRequest dry = Good("dry");
  dry.set_dry_run(true);
  Open();
  ASSERT_TRUE(stream_->Write(MessageOf({bad, Good("a"), Good("huge"), old, dry, Good("b")})));
  const v1::SubmitJobsResponse answer = Answer();
  ASSERT_EQ(answer.outcomes_size(), 6);
  EXPECT_EQ(answer.outcomes(0).code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(answer.outcomes(0).message(), HasSubstr("train.batch_size"));
  EXPECT_EQ(answer.outcomes(1).job_id(), 1u);
  EXPECT_EQ(answer.outcomes(2).code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(answer.outcomes(2).message(), HasSubstr("refused: no worker"));
  EXPECT_EQ(answer.outcomes(2).job_id(), 0u);
  EXPECT_EQ(answer.outcomes(3).code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(answer.outcomes(3).message(), HasSubstr("protocol versions differ"));
  EXPECT_EQ(answer.outcomes(4).code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(answer.outcomes(5).job_id(), 2u);
  EXPECT_EQ(engine_.events().size(), 3u);
  stream_->WritesDone();
  EXPECT_OK(End());
}

TEST_F(SubmitStreamTest, SoManyStreamsAreOpenAtATime) {
  constexpr int kMost = 64;  // of one caller
  struct Call {
    Context context;
    std::unique_ptr<grpc::ClientReaderWriter<v1::SubmitJobsRequest, v1::SubmitJobsResponse>> stream;
    bool Stands(const std::string& name) {
      v1::SubmitJobsResponse response;
      return stream->Write(MessageOf({Good(name)})) && stream->Read(&response);
    }
  };
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < kMost; ++i) {
    calls.push_back(std::make_unique<Call>());
    calls.back()->stream = stub_->SubmitJobs(&calls.back()->context);
    ASSERT_TRUE(calls.back()->Stands(absl::StrCat("job-", i))) << i;
  }
  Call late;
  late.stream = stub_->SubmitJobs(&late.context);
  EXPECT_THAT(
      FromGrpc(late.stream->Finish()),
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("64 streams of submits of yours")));
  calls[0]->stream->WritesDone();
  EXPECT_OK(FromGrpc(calls[0]->stream->Finish()));
  // The server may take a moment longer to be done with it than the client.
  bool stands = false;
  for (int i = 0; i < 1000 && !stands; ++i) {
    Call next;
    next.stream = stub_->SubmitJobs(&next.context);
    stands = next.Stands("next");
    next.stream->WritesDone();
    const absl::Status end = FromGrpc(next.stream->Finish());
    EXPECT_EQ(end.ok(), stands) << end;
  }
  EXPECT_TRUE(stands) << "one has left";
  for (size_t i = 1; i < calls.size(); ++i) {
    calls[i]->stream->WritesDone();
    EXPECT_OK(FromGrpc(calls[i]->stream->Finish()));
  }
}

TEST_F(SubmitStreamTest, WithoutTheTokenNothingIsTaken) {
  grpc::ClientContext stranger;
  auto stream = stub_->SubmitJobs(&stranger);
  stream->Write(MessageOf({Good("a")}));
  v1::SubmitJobsResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_THAT(FromGrpc(stream->Finish()), StatusIs(absl::StatusCode::kUnauthenticated));
  EXPECT_TRUE(engine_.events().empty());
}

TEST_F(SubmitStreamTest, AMessageOutOfBoundsEndsTheStream) {
  for (const int submits : {0, SubmitStream::kMaxSubmits + 1}) {
    Context context;
    auto stream = stub_->SubmitJobs(&context);
    ASSERT_TRUE(stream->Write(MessageOf(std::vector<v1::SubmitRequest>(submits, Good("a")))));
    v1::SubmitJobsResponse response;
    EXPECT_FALSE(stream->Read(&response));
    EXPECT_THAT(FromGrpc(stream->Finish()),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("must be 1 to 256")));
  }
  EXPECT_TRUE(engine_.events().empty());
}

TEST_F(SubmitStreamTest, AnswersWaitForTheLastOfTheirMessageAndForThoseBeforeIt) {
  HeldAnswers answers;
  engine_.answer = answers.Hold();
  Open();
  ASSERT_TRUE(stream_->Write(MessageOf({Good("a"), Good("b")})));
  ASSERT_TRUE(stream_->Write(MessageOf({Good("c")})));
  answers.WaitFor(3);
  answers.GiveLast();   // c
  answers.GiveLast();   // b
  answers.GiveFirst();  // a
  const v1::SubmitJobsResponse first = Answer();
  ASSERT_EQ(first.outcomes_size(), 2);
  EXPECT_EQ(first.outcomes(0).job_id(), 1u);
  EXPECT_EQ(first.outcomes(1).job_id(), 2u);
  EXPECT_EQ(Answer().outcomes(0).job_id(), 3u);
}

TEST_F(SubmitStreamTest, NoMoreIsReadThanMayWaitForItsAnswer) {
  constexpr size_t kMessages = 3 * SubmitStream::kMaxUnanswered;
  HeldAnswers answers;
  engine_.answer = answers.Hold();
  Open();
  for (size_t i = 0; i < kMessages; ++i) {
    ASSERT_TRUE(stream_->Write(MessageOf({Good(absl::StrCat("job-", i))})));
  }
  answers.WaitFor(SubmitStream::kMaxUnanswered);
  for (size_t i = 0; i < kMessages; ++i) {
    answers.GiveFirst();
    EXPECT_EQ(Answer().outcomes(0).job_id(), i + 1);
  }
  EXPECT_EQ(answers.most(), SubmitStream::kMaxUnanswered);
  stream_->WritesDone();
  EXPECT_OK(End());
}

TEST_F(SubmitStreamTest, AClientThatHasSaidAllStillGetsItsAnswers) {
  HeldAnswers answers;
  engine_.answer = answers.Hold();
  Open();
  ASSERT_TRUE(stream_->Write(MessageOf({Good("a")})));
  ASSERT_TRUE(stream_->WritesDone());
  answers.WaitFor(1);
  answers.GiveFirst();
  EXPECT_EQ(Answer().outcomes(0).job_id(), 1u);
  EXPECT_OK(End());
}

TEST_F(SubmitStreamTest, AClientThatGoesAwayInTheMiddleLeavesItsSubmitsBehind) {
  HeldAnswers answers;
  engine_.answer = answers.Hold();
  Open();
  ASSERT_TRUE(stream_->Write(MessageOf({Good("a"), Good("b")})));
  answers.WaitFor(2);
  context_.TryCancel();
  EXPECT_THAT(End(), StatusIs(absl::StatusCode::kCancelled));
  // What was posted is applied all the same; its answers find nobody.
  answers.GiveFirst();
  answers.GiveFirst();
  EXPECT_EQ(engine_.events().size(), 2u);
}

TEST_F(SubmitStreamTest, AStoppingControllerSaysSo) {
  Open();
  ASSERT_TRUE(stream_->Write(MessageOf({Good("a")})));
  EXPECT_EQ(Answer().outcomes(0).job_id(), 1u);
  jobs_->Stop();
  EXPECT_THAT(End(), StatusIs(absl::StatusCode::kUnavailable));
  Context context;
  auto late = stub_->SubmitJobs(&context);
  v1::SubmitJobsResponse response;
  EXPECT_FALSE(late->Read(&response));
  EXPECT_THAT(FromGrpc(late->Finish()), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(SubmitStreamTest, AStoppingControllerSaysSoAlsoToAClientThatWaitsForItsLastAnswers) {
  HeldAnswers answers;
  engine_.answer = answers.Hold();
  Open();
  ASSERT_TRUE(stream_->Write(MessageOf({Good("a")})));
  ASSERT_TRUE(stream_->WritesDone());
  answers.WaitFor(1);
  jobs_->Stop();
  EXPECT_THAT(End(), StatusIs(absl::StatusCode::kUnavailable));
  answers.GiveFirst();  // finds nobody
}

class SubmitStreamLimitTest : public SubmitStreamTest {
 protected:
  SubmitStreamLimitTest() { limit_ = {.per_second = 0.001, .burst = 3}; }
};

TEST_F(SubmitStreamLimitTest, EachSubmitCountsAgainstTheCallersRate) {
  Open();  // counts too
  ASSERT_TRUE(stream_->Write(MessageOf({Good("a"), Good("b"), Good("c")})));
  const v1::SubmitJobsResponse answer = Answer();
  ASSERT_EQ(answer.outcomes_size(), 3);
  EXPECT_EQ(answer.outcomes(0).job_id(), 1u);
  EXPECT_EQ(answer.outcomes(1).job_id(), 2u);
  EXPECT_EQ(answer.outcomes(2).code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(answer.outcomes(2).message(), HasSubstr("--calls-per-second"));
  Context context;
  auto second = stub_->SubmitJobs(&context);
  v1::SubmitJobsResponse response;
  EXPECT_FALSE(second->Read(&response));
  EXPECT_THAT(FromGrpc(second->Finish()), StatusIs(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace muster::controller
