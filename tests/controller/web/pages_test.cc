#include <httplib.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "common/metrics/metric_names.h"
#include "controller/web/discovery.h"
#include "controller/web/page.h"
#include "controller/web/page_files.h"
#include "controller/web/web_pages.h"
#include "re2/re2.h"
#include "tests/controller/api/fake_engine.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::controller {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

void AddWorker(FakeEngine& engine, uint64_t id, std::string name, Presence presence) {
  engine.Publish([&](Snapshot& s) {
    auto worker = std::make_shared<Worker>();
    worker->name = name;
    worker->facts.pool = "default";
    worker->facts.metrics_address = "127.0.0.1:" + std::to_string(9000 + id);
    worker->lost = presence == Presence::kLost;
    worker->pulse.suspect = presence == Presence::kSuspect;
    s.workers.Put(id, worker);
  });
}

TEST(DiscoveryTest, ListsWorkersThatAreThereWithNameAndPool) {
  FakeEngine engine;
  AddWorker(engine, 1, "w1", Presence::kReady);
  AddWorker(engine, 2, "w2", Presence::kLost);
  AddWorker(engine, 3, "w\xff", Presence::kSuspect);
  const auto json = nlohmann::json::parse(DiscoveryJson(*engine.snapshot()));
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["targets"][0], "127.0.0.1:9001");
  EXPECT_EQ(json[0]["labels"]["worker"], "w1");
  EXPECT_EQ(json[0]["labels"]["pool"], "default");
}

TEST(DiscoveryTest, APortOnAnotherMachinesLoopbackIsLeftOut) {
  FakeEngine engine;
  AddWorker(engine, 1, "w1", Presence::kReady);
  AddWorker(engine, 2, "w2", Presence::kReady);
  engine.Publish([&](Snapshot& s) {
    auto elsewhere = std::make_shared<Worker>(*s.workers.Find(1));
    elsewhere->facts.advertise_address = "10.0.0.7";
    s.workers.Put(1, elsewhere);
    auto here = std::make_shared<Worker>(*s.workers.Find(2));
    here->facts.advertise_address = "127.0.0.1";
    s.workers.Put(2, here);
  });
  const auto json = nlohmann::json::parse(DiscoveryJson(*engine.snapshot()));
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0]["labels"]["worker"], "w2");
}

TEST(DiscoveryTest, APortThatSpeaksTlsIsToBeAskedByHttps) {
  FakeEngine engine;
  AddWorker(engine, 1, "w1", Presence::kReady);
  AddWorker(engine, 2, "w2", Presence::kReady);
  AddWorker(engine, 3, "w3", Presence::kReady);
  engine.Publish([&](Snapshot& s) {
    for (const uint64_t id : {1, 2}) {
      auto worker = std::make_shared<Worker>(*s.workers.Find(id));
      worker->facts.advertise_address = "10.0.0.7";
      worker->facts.metrics_address = id == 1 ? "https://10.0.0.7:7073" : "https://127.0.0.1:7073";
      s.workers.Put(id, worker);
    }
  });
  const auto json = nlohmann::json::parse(DiscoveryJson(*engine.snapshot()));
  ASSERT_EQ(json.size(), 2u) << "w2's port cannot be reached";
  EXPECT_EQ(json[0]["targets"][0], "10.0.0.7:7073");
  EXPECT_EQ(json[0]["labels"]["__scheme__"], "https");
  EXPECT_FALSE(json[1]["labels"].contains("__scheme__"));

  engine.Publish([&](Snapshot& s) {
    auto plain = std::make_shared<Worker>(*s.workers.Find(2));
    plain->facts.metrics_address = "10.0.0.7:7073";
    s.workers.Put(2, plain);
  });
  const auto all = nlohmann::json::parse(DiscoveryJson(*engine.snapshot()));
  EXPECT_EQ(all.size(), 3u);
  const auto safe = nlohmann::json::parse(DiscoveryJson(*engine.snapshot(), /*tls_only=*/true));
  ASSERT_EQ(safe.size(), 2u) << "the token would travel in plain text";
  EXPECT_EQ(safe[0]["targets"][0], "10.0.0.7:7073");
  EXPECT_EQ(safe[1]["labels"]["worker"], "w3");
}

TEST(PageTest, NothingInlineAndNothingFromElsewhereRuns) {
  auto server = HttpServer::Create({}, PageHandlers());
  ASSERT_OK(server);
  httplib::Client client("http://" + (*server)->address());
  const auto page = client.Get("/");
  ASSERT_TRUE(page);
  EXPECT_THAT(page->get_header_value("Content-Type"), HasSubstr("text/html"));
  EXPECT_THAT(page->get_header_value("Content-Security-Policy"), HasSubstr("default-src 'self'"));
  EXPECT_THAT(page->get_header_value("Content-Security-Policy"), Not(HasSubstr("unsafe")));
  EXPECT_EQ(page->get_header_value("X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(page->get_header_value("X-Frame-Options"), "DENY");
}

// All that a file of the page names is there, and none of it has another host.
TEST(PageTest, WhatItsFilesNameIsThere) {
  auto server = HttpServer::Create({}, PageHandlers());
  ASSERT_OK(server);
  httplib::Client client("http://" + (*server)->address());
  int named = 0;
  for (const auto& [path, contents] : PageFiles()) {
    const std::string text(contents);
    if (absl::StartsWith(path, "vendor/")) continue;
    static const LazyRE2 kNames = {R"re((?:href|src)="(/page/[^"]*)"|from "(\.[^"]*)")re"};
    const std::filesystem::path folder =
        std::filesystem::path(absl::StrCat("/page/", path)).parent_path();
    re2::StringPiece rest(text);
    for (std::string whole, beside; RE2::FindAndConsume(&rest, *kNames, &whole, &beside); ++named) {
      const std::string file =
          beside.empty() ? whole : (folder / beside).lexically_normal().string();
      const auto answer = client.Get(file);
      ASSERT_TRUE(answer) << file;
      EXPECT_EQ(answer->status, 200) << path << " names " << file;
    }
    EXPECT_THAT(text, Not(HasSubstr("https://"))) << std::string(path);
    EXPECT_THAT(text, Not(HasSubstr("innerHTML"))) << std::string(path);
  }
  EXPECT_GT(named, 20);
}

TEST(PageTest, WhoHasAFileAlreadyIsNotSentItAgain) {
  auto server = HttpServer::Create({}, PageHandlers());
  ASSERT_OK(server);
  httplib::Client client("http://" + (*server)->address());
  const std::string tag = client.Get("/page/src/app.js")->get_header_value("ETag");
  const auto again = client.Get("/page/src/app.js", {{"If-None-Match", tag}});
  EXPECT_EQ(again->status, 304);
  EXPECT_EQ(again->body, "");
}

bool IsJobState(const std::string& line) { return line.starts_with("muster_job_state{"); }

TEST(WebPagesTest, EveryPathAnswersTwoAtOnceTooAndReadinessFollowsItsParts) {
  testing::TempDir dir;
  RealClock clock;
  FakeEngine engine;
  MetricFamilies families(metric::kControllerDroppedTotal);
  MetricsIngestOptions options;
  options.path = dir / "metrics.db";
  auto ingest = MetricsIngest::Open(std::move(options), clock);
  ASSERT_OK(ingest);
  WebPages pages({dir.path(), absl::Seconds(60), false}, engine, **ingest, families, clock);
  std::atomic<bool> ready = true;
  auto server = HttpServer::Create({}, pages.Handlers([&] {
    return ready ? absl::OkStatus() : absl::UnavailableError("starting or stopping");
  }));
  ASSERT_OK(server);
  httplib::Client client("http://" + (*server)->address());
  for (const char* path : {"/", "/metrics", "/healthz", "/readyz", "/sd"}) {
    const auto answer = client.Get(path);
    ASSERT_TRUE(answer) << path;
    EXPECT_EQ(answer->status, 200) << path;
  }
  EXPECT_THAT(client.Get("/sd")->get_header_value("Content-Type"), HasSubstr("application/json"));
  const std::string page = client.Get("/metrics")->body;
  EXPECT_THAT(page, HasSubstr("muster_controller_term 7"));
  EXPECT_THAT(page, HasSubstr("muster_controller_dropped_series_total 0"));
  engine.Publish([](Snapshot& s) {
    for (uint64_t id = 1; id <= 300; ++id) s.jobs.Put(id, MakeJob(id, "digits"));
  });
  const auto scrape_often = [&] {
    httplib::Client own("http://" + (*server)->address());
    for (int i = 0; i < 10; ++i) {
      const std::vector<std::string> lines = absl::StrSplit(own.Get("/metrics")->body, '\n');
      EXPECT_EQ(std::count_if(lines.begin(), lines.end(), IsJobState), 300);
    }
  };
  std::thread another(scrape_often);
  scrape_often();
  another.join();
  ready = false;
  EXPECT_EQ(client.Get("/readyz")->status, 503);
  EXPECT_EQ(client.Get("/healthz")->status, 200);
  EXPECT_EQ(client.Get("/nothing")->status, 404);
}

// Why it is not ready is for who may ask: it names files, databases and workers.
TEST(WebPagesTest, StrangersHearOneWordOfItsReadiness) {
  testing::TempDir dir;
  RealClock clock;
  FakeEngine engine;
  MetricFamilies families(metric::kControllerDroppedTotal);
  MetricsIngestOptions options;
  options.path = dir / "metrics.db";
  auto ingest = MetricsIngest::Open(std::move(options), clock);
  ASSERT_OK(ingest);
  WebPages pages({dir.path(), absl::Seconds(60), false}, engine, **ingest, families, clock);
  std::atomic<bool> ready = false;
  const auto is_ready = [&] {
    return ready ? absl::OkStatus() : absl::UnavailableError("state.db: no");
  };
  const auto ask = [&](std::optional<std::string> details_token, const std::string& shown) {
    ServedRequest request;
    if (!shown.empty()) request.headers["authorization"] = shown;
    return pages.Handlers(is_ready, std::move(details_token)).at("/readyz")(request);
  };
  EXPECT_EQ(ask(std::nullopt, "").body, "state.db: no\n");
  EXPECT_EQ(ask("secret", "Bearer secret").body, "state.db: no\n");
  for (const char* shown : {"", "Bearer ", "Bearer other", "Basic Og=="}) {
    for (const char* token : {"secret", ""}) {
      EXPECT_EQ(ask(token, shown).body, "unavailable\n") << shown;
      EXPECT_EQ(ask(token, shown).status, 503) << shown;
    }
  }
  ready = true;
  EXPECT_EQ(ask("secret", "").body, "ok\n");
  EXPECT_EQ(ask("secret", "").status, 200);
}

}  // namespace
}  // namespace muster::controller
