#include "controller/web/gateway/json_gateway.h"

#include <gmock/gmock.h>
#include <httplib.h>

#include <future>
#include <nlohmann/json.hpp>

#include "controller/api/page_service.h"
#include "tests/controller/api/api_fixture.h"

namespace muster::controller {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// The services of ApiFixture behind an HTTP port.
class JsonGatewayTest : public ApiFixture {
 protected:
  JsonGatewayTest() {
    auto opened = AccessControl::Open({.path = dir_ / "access.db"}, kToken, clock_);
    EXPECT_OK(opened);
    control_ = *std::move(opened);
  }
  AccessControl* access() override { return control_.get(); }
  void SetUp() override {
    ApiFixture::SetUp();
    page_ = std::make_unique<PageService>(engine_, *ingest_, *gate_);
    grpc::ServerBuilder builder;
    builder.RegisterService(jobs_.get());
    builder.RegisterService(page_.get());
    builder.RegisterService(access_service_.get());
    behind_ = builder.BuildAndStart();
    Serve(kToken);
    engine_.Publish([](Snapshot& s) {
      for (uint64_t id = 1; id <= 3; ++id) s.jobs.Put(id, MakeJob(id, "digits"));
    });
  }
  void TearDown() override {
    behind_->Shutdown();
    http_.reset();
    ApiFixture::TearDown();
    control_->Stop();
  }
  void Serve(std::string open_read_token) {
    http_.reset();
    gateway_ = std::make_unique<JsonGateway>(behind_->InProcessChannel({}),
                                             JsonGateway::Options{std::move(open_read_token)});
    auto http = HttpServer::Create({}, {}, {{JsonGateway::kFolder, gateway_->Folder()}});
    ASSERT_OK(http);
    http_ = *std::move(http);
  }

  struct Answer {
    int status = 0;
    json body;
    std::string tag;
  };
  static Answer Of(const httplib::Result& result) {
    if (!result) return {};
    return {result->status, json::parse(result->body, nullptr, /*allow_exceptions=*/false),
            result->get_header_value("ETag")};
  }
  Answer Get(const std::string& path, const httplib::Headers& headers = {}) {
    httplib::Client client("http://" + http_->address());
    return Of(client.Get("/api/v1/" + path, headers));
  }
  Answer Post(const std::string& path, const std::string& body, httplib::Headers headers = {},
              const char* type = "application/json") {
    httplib::Client client("http://" + http_->address());
    return Of(client.Post("/api/v1/" + path, headers, body, type));
  }
  static httplib::Headers Bearer(const std::string& token) {
    return {{"Authorization", "Bearer " + token}};
  }

  std::unique_ptr<AccessControl> control_;
  std::unique_ptr<PageService> page_;
  std::unique_ptr<grpc::Server> behind_;
  std::unique_ptr<JsonGateway> gateway_;
  std::unique_ptr<HttpServer> http_;
};

TEST_F(JsonGatewayTest, AnswersAreTheMessagesOfTheServices) {
  const Answer jobs = Get("jobs?text=DIG&page_size=2&order=ID&ascending=true");
  EXPECT_EQ(jobs.status, 200);
  ASSERT_EQ(jobs.body["jobs"].size(), 2u);
  EXPECT_EQ(jobs.body["jobs"][0]["id"], "1");
  EXPECT_EQ(jobs.body["matching"], 3);
  EXPECT_EQ(Get("jobs/2").body["summary"]["name"], "digits");
  EXPECT_EQ(Get("jobs/nobody").body["error"]["code"], "NOT_FOUND");  // by name
  EXPECT_EQ(Get("jobs/2/curves?max_points=10").status, 200);
  EXPECT_EQ(Get("jobs/2/ledger").body["jobs"].size(), 1u);
  EXPECT_EQ(Get("jobs/2/explain").body["summary"]["id"], "2");
  EXPECT_TRUE(Get("jobs/2/checkpoints").body["checkpoints"].empty());
  EXPECT_TRUE(Get("workers").body["workers"].is_array());
  EXPECT_TRUE(Get("projects").body["projects"].is_array());
  EXPECT_EQ(Get("version").body["term"], "7");
  EXPECT_EQ(Get("history?page_size=2").body["jobs"].size(), 2u);
  EXPECT_TRUE(Get("history?archived_only=true&states=FAILED").body["jobs"].empty());
}

TEST_F(JsonGatewayTest, WhatIsNotThereAndWhatIsWrongIsSaidInJson) {
  const Answer unknown = Get("jobs/99");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.body["error"]["code"], "NOT_FOUND");
  EXPECT_THAT(unknown.body["error"]["message"].get<std::string>(), HasSubstr("99"));
  for (const char* path : {"", "nothing", "jobs/", "jobs//logs", "jobs/1/nothing", "jobs/1/logs/2"})
    EXPECT_EQ(Get(path).status, 404) << path;
  EXPECT_EQ(Get("jobs?states=NONE").status, 400);
  EXPECT_EQ(Get("jobs?page_size=x").status, 400);
  EXPECT_EQ(Get("jobs/1/logs?tail=5001", Bearer(kToken)).status, 400);
  EXPECT_EQ(Post("jobs", "{}", Bearer(kToken)).status, 404);
  EXPECT_EQ(Get("jobs/1/cancel").status, 404);
}

TEST_F(JsonGatewayTest, WhatHasNotChangedIsNotSentAgain) {
  const Answer first = Get("jobs");
  EXPECT_NE(first.tag, "");
  EXPECT_EQ(Get("jobs", {{"If-None-Match", first.tag}}).status, 304);
  engine_.Publish([](Snapshot& s) { s.jobs.Put(4, MakeJob(4, "new")); });
  EXPECT_EQ(Get("jobs", {{"If-None-Match", first.tag}}).status, 200);
}

TEST_F(JsonGatewayTest, WithoutATokenItOnlyReadsAndOnlyUnderANameOfThisMachine) {
  EXPECT_EQ(Get("jobs", {{"Host", "localhost:7799"}}).status, 200);
  EXPECT_EQ(Get("jobs", {{"Host", "evil.example"}}).status, 401);
  EXPECT_EQ(Get("jobs", {{"Origin", "http://evil.example"}}).status, 403);
  EXPECT_EQ(Post("jobs/1/cancel", "{}").status, 401);
  EXPECT_TRUE(engine_.events().empty());
  Serve("");  // beyond loopback
  EXPECT_EQ(Get("jobs").status, 401);
  EXPECT_EQ(Get("jobs", Bearer("another")).status, 401);
  EXPECT_EQ(Get("jobs", Bearer(kToken)).status, 200);
  EXPECT_EQ(Get("jobs", {{"Authorization", "Basic abc"}}).status, 401);
  EXPECT_EQ(Get("jobs", Bearer("a\xff"
                               "b"))
                .status,
            401);
}

TEST_F(JsonGatewayTest, StrangersReadNeitherLogsNorSpecs) {
  EXPECT_EQ(Get("jobs/1/logs").status, 401);
  EXPECT_EQ(Get("jobs/1/logs", Bearer(kToken)).status, 200);
  EXPECT_FALSE(Get("jobs/1").body.contains("spec"));
  EXPECT_TRUE(Get("jobs/1", Bearer(kToken)).body.contains("spec"));
}

TEST_F(JsonGatewayTest, WhoATokenStandsForIsToldToWhoShowsIt) {
  const Answer known = Get("whoami", Bearer(kToken));
  EXPECT_EQ(known.status, 200);
  EXPECT_NE(known.body["user"], "");
  EXPECT_EQ(known.body["grants"][0]["project"], "*");
  EXPECT_EQ(known.body["grants"][0]["role"], "ADMIN");
  EXPECT_EQ(Get("whoami").status, 401);
  EXPECT_EQ(Get("whoami", Bearer("another")).status, 401);
}

TEST_F(JsonGatewayTest, ACheckpointIsTheOneOfTheAddress) {
  engine_.Publish([](Snapshot& s) {
    auto checkpoint = std::make_shared<Checkpoint>();
    checkpoint->id = 5;
    checkpoint->job_id = 1;
    s.checkpoints.Put(5, checkpoint);
  });
  const std::string pin = R"({"verb": "PIN", "user": "ann", "checkpoint_id": 6})";
  EXPECT_EQ(Post("checkpoints/5/control", pin).status, 401);
  EXPECT_EQ(Post("checkpoints/five/control", pin, Bearer(kToken)).status, 400);
  EXPECT_EQ(Post("checkpoints/6/control", pin, Bearer(kToken)).status, 404);
  EXPECT_TRUE(engine_.events().empty());
  EXPECT_EQ(Post("checkpoints/5/control", pin, Bearer(kToken)).status, 200);
  ASSERT_EQ(engine_.events().size(), 1u);
  const auto control = std::get<ControlCheckpoint>(engine_.events()[0]);
  EXPECT_EQ(control.checkpoint_id, 5u);
  EXPECT_EQ(control.actor, "user:ann");
}

TEST_F(JsonGatewayTest, AWorkerIsTheOneOfTheAddress) {
  const std::string drain = R"({"cordoned": true, "reason": "new fans", "worker": "other"})";
  EXPECT_EQ(Post("workers/w1/cordon", drain).status, 401);
  EXPECT_TRUE(engine_.events().empty());
  EXPECT_EQ(Post("workers/w1/cordon", drain, Bearer(kToken)).status, 200);
  ASSERT_EQ(engine_.events().size(), 1u);
  const auto cordon = std::get<CordonWorker>(engine_.events()[0]);
  EXPECT_EQ(cordon.worker, "w1");
  EXPECT_TRUE(cordon.cordoned);
  EXPECT_EQ(cordon.reason, "new fans");
}

TEST_F(JsonGatewayTest, AChangeNeedsTheTokenJsonAndTheSameOrigin) {
  EXPECT_EQ(Post("jobs/1/cancel", "{}", Bearer("another")).status, 401);
  EXPECT_EQ(Post("jobs/1/cancel", "{}", Bearer(kToken), "text/plain").status, 400);
  httplib::Headers foreign = Bearer(kToken);
  foreign.emplace("Origin", "http://evil.example");
  EXPECT_EQ(Post("jobs/1/cancel", "{}", foreign).status, 403);
  EXPECT_EQ(Post("jobs/1/cancel", "not json", Bearer(kToken)).status, 400);
  EXPECT_EQ(Post("jobs/1/cancel", R"({"colour": "red"})", Bearer(kToken)).status, 400);
  EXPECT_EQ(Post("jobs/9/cancel", "{}", Bearer(kToken)).status, 404);
  EXPECT_TRUE(engine_.events().empty());
  engine_.on_event = [](const Event&) { return EventResult{.job_id = 1, .jobs = 1}; };
  const Answer done = Post("jobs/1/cancel", R"({"user": "ann"})", Bearer(kToken));
  EXPECT_EQ(done.status, 200);
  EXPECT_EQ(done.body["jobs"], 1);
  ASSERT_EQ(engine_.events().size(), 1u);
  const auto cancel = std::get<CancelJob>(engine_.events()[0]);
  EXPECT_EQ(cancel.job_id, 1u);
  EXPECT_EQ(cancel.actor, "user:ann");
}

TEST_F(JsonGatewayTest, TheJobIsTheOneOfTheAddress) {
  engine_.on_event = [](const Event&) { return EventResult{.job_id = 2, .jobs = 1}; };
  EXPECT_EQ(
      Post("jobs/2/control", R"({"verb": "SUSPEND", "job": {"id": 3}})", Bearer(kToken)).status,
      200);
  ASSERT_EQ(engine_.events().size(), 1u);
  EXPECT_EQ(std::get<ControlJob>(engine_.events()[0]).job_id, 2u);
}

TEST_F(JsonGatewayTest, ARefusalIsAConflictWithItsReason) {
  engine_.on_event = [](const Event&) {
    return EventResult{.status = absl::FailedPreconditionError("job 1: has ended")};
  };
  const Answer refused = Post("jobs/1/cancel", "{}", Bearer(kToken));
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(refused.body["error"]["message"], "job 1: has ended");
}

TEST_F(JsonGatewayTest, LogsGoOnWhereTheLastAnswerEnded) {
  const auto append = [this](uint32_t rank, uint64_t offset, std::string text) {
    std::promise<absl::Status> stored;
    MetricsBatch batch;
    batch.logs.push_back({{1, 1, 1, rank}, false, offset, std::move(text)});
    ingest_->Submit(std::move(batch), [&](const absl::Status& s) { stored.set_value(s); });
    ASSERT_OK(stored.get_future().get());
  };
  append(0, 0, "one\ntwo\n");
  append(1, 0, "other\n");
  const Answer first = Get("jobs/1/logs?rank=0&tail=1", Bearer(kToken));
  ASSERT_EQ(first.body["chunks"].size(), 1u);
  EXPECT_EQ(first.body["chunks"][0]["text"], "dHdvCg==");  // "two\n"
  EXPECT_EQ(first.body["chunks"][0]["offset"], "4");
  EXPECT_EQ(first.body["more"], false);
  const std::string next = first.body["next"];
  EXPECT_TRUE(Get("jobs/1/logs?rank=0&after=" + next, Bearer(kToken)).body["chunks"].empty());
  append(0, 8, "three\n");
  const Answer news = Get("jobs/1/logs?rank=0&after=" + next, Bearer(kToken));
  ASSERT_EQ(news.body["chunks"].size(), 1u);
  EXPECT_EQ(news.body["chunks"][0]["offset"], "8");
}

TEST_F(JsonGatewayTest, LongLogsComeInPartsThatMissNothing) {
  constexpr size_t kChunk = 60'000;
  constexpr size_t kChunks = 40;
  for (size_t i = 0; i < kChunks; ++i) {
    std::promise<absl::Status> stored;
    MetricsBatch batch;
    batch.logs.push_back({{1, 1, 1, 0}, false, i * kChunk, std::string(kChunk - 1, 'x') + "\n"});
    ingest_->Submit(std::move(batch), [&](const absl::Status& s) { stored.set_value(s); });
    ASSERT_OK(stored.get_future().get());
  }
  uint64_t at = 0;
  std::string path = "jobs/1/logs?tail=5000";
  for (int part = 0; part < 10; ++part) {
    const Answer answer = Get(path, Bearer(kToken));
    for (const auto& chunk : answer.body["chunks"]) {
      EXPECT_EQ(chunk["offset"], std::to_string(at));
      at += kChunk;
    }
    if (!answer.body["more"]) break;
    path = "jobs/1/logs?after=" + answer.body["next"].get<std::string>();
  }
  EXPECT_EQ(at, kChunk * kChunks);
}

}  // namespace
}  // namespace muster::controller
