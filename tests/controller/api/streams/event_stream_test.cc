// What happened, as clients read it.
#include <gmock/gmock.h>

#include "tests/controller/api/api_fixture.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EventStreamTest : public ApiFixture {
 protected:
  // Appends one event to the job.
  void Happen(uint64_t job_id, const std::string& message) {
    engine_.Publish([&](Snapshot& s) {
      const Job* before = s.FindJob(job_id);
      auto job = before == nullptr ? MakeJob(job_id, "job") : std::make_shared<Job>(*before);
      auto event = std::make_shared<JobEvent>();
      event->sequence = ++s.last_event;
      event->job_id = job_id;
      event->message = message;
      s.events.Put(event->sequence, event);
      job->events.push_back(std::move(event));
      s.jobs.Put(job_id, std::move(job));
    });
  }
  // All that a stream sends before it ends.
  std::vector<std::string> Read(const v1::StreamEventsRequest& request, absl::Status& end) {
    ApiFixture::Context context;
    auto reader = stub_->StreamEvents(&context, request);
    std::vector<std::string> messages;
    v1::StreamEventsResponse response;
    while (reader->Read(&response)) {
      for (const v1::JobEvent& event : response.events()) messages.push_back(event.message());
    }
    end = FromGrpc(reader->Finish());
    return messages;
  }
};

TEST_F(EventStreamTest, EventsOfAllJobsComeInTheirOrder) {
  Happen(1, "a");
  Happen(2, "b");
  Happen(1, "c");
  absl::Status end;
  v1::StreamEventsRequest request;
  EXPECT_THAT(Read(request, end), ElementsAre("a", "b", "c"));
  EXPECT_OK(end);
  request.set_tail(2);
  EXPECT_THAT(Read(request, end), ElementsAre("b", "c"));
  request.set_after_sequence(2);
  EXPECT_THAT(Read(request, end), ElementsAre("c"));
  request = v1::StreamEventsRequest();
  request.mutable_job()->set_id(1);
  EXPECT_THAT(Read(request, end), ElementsAre("a", "c"));
  request.mutable_job()->set_id(9);
  Read(request, end);
  EXPECT_THAT(end, StatusIs(absl::StatusCode::kNotFound));
}

// Their sequences are missing since.
TEST_F(EventStreamTest, EventsOfForgottenJobsArePassedOver) {
  for (const char* message : {"a", "b", "c", "d"}) {
    Happen(message[0] == 'b' || message[0] == 'd' ? 2 : 1, message);
  }
  engine_.Publish([](Snapshot& s) {
    for (const uint64_t sequence : {2, 4}) s.events.Erase(sequence);
    s.jobs.Erase(2);
    s.archived_events = 2;
  });
  absl::Status end;
  v1::StreamEventsRequest request;
  EXPECT_THAT(Read(request, end), ElementsAre("a", "c"));
  EXPECT_OK(end);
  request.set_tail(2);
  EXPECT_THAT(Read(request, end), ElementsAre("a", "c")) << "so many events, not numbers";
  request.set_tail(1);
  EXPECT_THAT(Read(request, end), ElementsAre("c"));
  request = v1::StreamEventsRequest();
  request.set_after_sequence(2);
  EXPECT_THAT(Read(request, end), ElementsAre("c"));
  request.set_after_sequence(~uint64_t{0});
  EXPECT_THAT(Read(request, end), ElementsAre());
  EXPECT_OK(end);
  request = v1::StreamEventsRequest();
  request.mutable_job()->set_id(2);
  Read(request, end);
  EXPECT_THAT(end, StatusIs(absl::StatusCode::kNotFound, HasSubstr("was forgotten")));
}

TEST_F(EventStreamTest, MoreThanAPageComesWhole) {
  std::vector<std::string> all;
  for (int i = 0; i < 1201; ++i) {
    all.push_back(std::to_string(i));
    Happen(1 + i % 3, all.back());
  }
  absl::Status end;
  EXPECT_EQ(Read({}, end), all);
  EXPECT_OK(end);
}

// Pages follow one another as fast as they are read: the pump turns but once here.
TEST_F(EventStreamTest, ThePagesDoNotWaitForTheirTurn) {
  for (int i = 0; i < 1201; ++i) Happen(1 + i % 3, std::to_string(i));
  SimulatedClock stopped;
  JobService service(engine_, *ingest_, *gate_, stopped, "/ckpt");
  grpc::ServerBuilder builder;
  AllowClientPings(builder);
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  stub_ = v1::JobService::NewStub(MakeChannel({.address = "127.0.0.1:" + std::to_string(port)}));
  absl::Status end;
  EXPECT_EQ(Read({}, end).size(), 1201u);
  EXPECT_OK(end);
  v1::StreamEventsRequest request;
  request.mutable_job()->set_id(2);
  request.set_tail(399);
  const std::vector<std::string> tail = Read(request, end);
  ASSERT_EQ(tail.size(), 399u);
  EXPECT_EQ(tail.front(), "4");
  service.Stop();
  server->Shutdown();
}

TEST_F(EventStreamTest, AFollowerHearsWhatComesAndOnlyOnce) {
  Happen(1, "a");
  ApiFixture::Context context;
  v1::StreamEventsRequest request;
  request.set_follow(true);
  auto reader = stub_->StreamEvents(&context, request);
  v1::StreamEventsResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.events(0).message(), "a");
  Happen(2, "b");
  ASSERT_TRUE(reader->Read(&response));
  ASSERT_EQ(response.events_size(), 1);
  EXPECT_EQ(response.events(0).message(), "b");
  jobs_->Stop();
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_THAT(FromGrpc(reader->Finish()), StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace muster::controller
