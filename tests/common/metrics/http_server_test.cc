#include "common/metrics/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/unique_fd.h"
#include "common/metrics/metric_families.h"
#include "tests/support/no_descriptors.h"
#include "tests/support/status_matchers.h"

namespace muster {
namespace {

using ::muster::testing::StatusIs;
using ::testing::HasSubstr;

std::map<std::string, HttpHandler> Echo() {
  return {{"/echo", [](const ServedRequest& request) {
             ServedResponse response;
             for (const auto& [key, value] : request.query) {
               absl::StrAppend(&response.body, key, "=", value, ";");
             }
             return response;
           }}};
}

std::unique_ptr<HttpServer> Start(std::map<std::string, HttpHandler> handlers,
                                  HttpServer::Options options = {}) {
  auto server = HttpServer::Create(options, std::move(handlers));
  EXPECT_OK(server);
  return *std::move(server);
}

TEST(HttpServerTest, ServesMetricsWithPrometheusContentType) {
  MetricFamilies families(metric::kWorkerDroppedTotal);
  const auto ok = [] { return absl::OkStatus(); };
  auto server = Start(DaemonHandlers({&families}, ok, ok));
  httplib::Client client("http://" + server->address());
  families.Set(metric::kWorkerConnected, 1);
  auto result = client.Get("/metrics");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, 200);
  EXPECT_EQ(result->get_header_value("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_THAT(result->body, HasSubstr("muster_worker_connected 1\n"));
}

TEST(HttpServerTest, HealthAndReadinessSayWhyNot) {
  auto server = Start(DaemonHandlers(
      {}, [] { return absl::OkStatus(); }, [] { return absl::UnavailableError("still loading"); }));
  httplib::Client client("http://" + server->address());
  auto healthy = client.Get("/healthz");
  ASSERT_TRUE(healthy);
  EXPECT_EQ(healthy->status, 200);
  EXPECT_EQ(healthy->body, "ok\n");
  auto ready = client.Get("/readyz");
  ASSERT_TRUE(ready);
  EXPECT_EQ(ready->status, 503);
  EXPECT_EQ(ready->body, "still loading\n");
}

TEST(HttpServerTest, OtherPathsAreNotFoundAndPathsAreNoPatterns) {
  auto server = Start(Echo());
  httplib::Client client("http://" + server->address());
  for (const char* path : {"/", "/echo/", "/echoo", "/nowhere"}) {
    auto result = client.Get(path);
    ASSERT_TRUE(result) << path;
    EXPECT_EQ(result->status, 404) << path;
  }
}

TEST(HttpServerTest, HandsOverTheQuery) {
  auto server = Start(Echo());
  auto result = httplib::Client("http://" + server->address()).Get("/echo?a=1&b=x%20y");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->body, "a=1;b=x y;");
}

std::map<std::string, HttpFolder> Folder(HttpFolder folder) {
  return {{"/api/", std::move(folder)}};
}

std::unique_ptr<HttpServer> StartFolder(HttpFolder folder) {
  auto server = HttpServer::Create({}, Echo(), Folder(std::move(folder)));
  EXPECT_OK(server);
  return *std::move(server);
}

TEST(HttpServerTest, AFolderHearsAllOfARequestAndAnswersWithHeaders) {
  auto server = StartFolder(
      {.handler =
           [](ServedRequest request, HttpDone done) {
             const std::string who = request.headers["x-who"];
             done({.body = absl::StrCat(request.path, request.is_post, who, request.body),
                   .headers = {{"X-Answer", "yes"}}});
           },
       .max_body_bytes = 8});
  httplib::Client client("http://" + server->address());
  const auto got = client.Get("/api/a/b", {{"X-Who", "ann"}});
  ASSERT_TRUE(got);
  EXPECT_EQ(got->body, "/api/a/b0ann");
  EXPECT_EQ(got->get_header_value("X-Answer"), "yes");
  EXPECT_EQ(client.Post("/api/c", "12345678", "text/plain")->body, "/api/c112345678");
  EXPECT_EQ(client.Post("/api/c", "123456789", "text/plain")->status, 413);
  EXPECT_EQ(client.Post("/api/c", std::string(1 << 20, 'x'), "text/plain")->status, 413);
  EXPECT_EQ(client.Put("/api/c", "", "text/plain")->status, 405);
  EXPECT_EQ(client.Post("/echo", "", "text/plain")->status, 405);
}

TEST(HttpServerTest, AFolderWithoutBodiesTakesNoPost) {
  auto server = StartFolder({.handler = [](ServedRequest, HttpDone done) { done({}); }});
  httplib::Client client("http://" + server->address());
  EXPECT_EQ(client.Get("/api/a")->status, 200);
  EXPECT_EQ(client.Post("/api/a", "", "text/plain")->status, 405);
}

// Takes the promises of answers, to be kept on another thread.
class LateAnswers {
 public:
  HttpFolder Folder() {
    return {.handler = [this](ServedRequest, HttpDone done) {
      MutexLock lock(mutex_);
      due_.push_back(std::move(done));
      changed_.NotifyAll();
    }};
  }
  void WaitFor(size_t count) {
    MutexLock lock(mutex_);
    while (due_.size() < count) changed_.Wait(mutex_);
  }
  void AnswerAll() {
    std::vector<HttpDone> due;
    {
      MutexLock lock(mutex_);
      due.swap(due_);
    }
    for (HttpDone& done : due) done({.body = "late"});
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<HttpDone> due_ MUSTER_GUARDED_BY(mutex_);
};

TEST(HttpServerTest, AnswersThatAreDueHoldUpNobodyElse) {
  LateAnswers late;
  auto server = StartFolder(late.Folder());
  constexpr size_t kAskers = 8;  // more than there are threads
  std::atomic<int> answered = 0;
  std::vector<std::thread> askers;
  for (size_t i = 0; i < kAskers; ++i) {
    askers.emplace_back([&] {
      httplib::Client client("http://" + server->address());
      const auto got = client.Get("/api/a");
      if (got && got->body == "late") ++answered;
    });
  }
  late.WaitFor(kAskers);
  httplib::Client client("http://" + server->address());
  EXPECT_EQ(client.Get("/echo?a=1")->body, "a=1;");
  late.AnswerAll();
  for (std::thread& asker : askers) asker.join();
  EXPECT_EQ(answered, static_cast<int>(kAskers));
}

TEST(HttpServerTest, ItStopsOnceTheAnswersThatAreDueHaveComeAlsoOfWhoHasGone) {
  LateAnswers late;
  auto server = StartFolder(late.Folder());
  std::thread asker([&] {
    httplib::Client client("http://" + server->address());
    client.set_read_timeout(std::chrono::milliseconds(1));
    EXPECT_FALSE(client.Get("/api/a"));
  });
  late.WaitFor(1);
  asker.join();
  std::atomic<bool> stopped = false;
  std::thread stopper([&] {
    server->Stop();
    stopped = true;
  });
  EXPECT_FALSE(stopped);
  late.AnswerAll();
  stopper.join();
}

TEST(HttpServerTest, OnlyReadsAreServed) {
  auto server = Start(Echo());
  auto result = httplib::Client("http://" + server->address()).Post("/echo", "", "text/plain");
  ASSERT_TRUE(result);
  EXPECT_NE(result->status, 200);
}

TEST(HttpServerTest, ManyClientsShareFewThreads) {
  // None is displaced, however long the others take on this machine.
  auto server =
      Start(Echo(), {.threads = 2, .max_connections = 2, .crowd_timeout = absl::Hours(1)});
  std::atomic<int> served = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 16; ++i) {
    clients.emplace_back([&] {
      auto result = httplib::Client("http://" + server->address()).Get("/echo?a=1");
      if (result && result->body == "a=1;") ++served;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(served, 16);
}

TEST(HttpServerTest, APortInUseIsRefusedWithItsName) {
  auto first = Start(Echo());
  auto second = HttpServer::Create({.listen = first->address()}, Echo());
  EXPECT_THAT(second, StatusIs(absl::StatusCode::kFailedPrecondition,
                               ::testing::AllOf(HasSubstr(first->address()), HasSubstr("in use"))));
}

TEST(HttpServerTest, BadListenAddressesAreRefused) {
  for (const char* listen :
       {"", "7072", ":7072", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", "127.0.0.1:-1"}) {
    EXPECT_THAT(HttpServer::Create({.listen = listen}, Echo()),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("HOST:PORT")))
        << listen;
  }
  EXPECT_THAT(HttpServer::Create({.listen = "256.1.1.1:0"}, Echo()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("256.1.1.1:0")));
}

TEST(HttpServerTest, StopsRightAfterItsStartAndLeavesThePort) {
  std::string address;
  {
    auto server = Start(Echo());
    address = server->address();
    server->Stop();
    server->Stop();
    EXPECT_FALSE(httplib::Client("http://" + address).Get("/echo"));
  }
  EXPECT_OK(HttpServer::Create({.listen = address}, Echo()));
}

// A connection that is written to byte by byte.
class RawClient {
 public:
  explicit RawClient(const HttpServer& server) : RawClient() { Connect(server); }
  // Has its socket, and connects later.
  RawClient() : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {}
  void Connect(const HttpServer& server) {
    const int port = std::stoi(server.address().substr(server.address().rfind(':') + 1));
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  }
  bool Send(const std::string& text) {
    return ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  // Whether nothing comes for so long.
  bool HearsNothing(std::chrono::milliseconds patience) {
    pollfd heard = {fd_.get(), POLLIN, 0};
    return ::poll(&heard, 1, static_cast<int>(patience.count())) == 0;
  }
  // All until the server ends the connection.
  std::string ReadToEnd() {
    std::string all;
    char buffer[1024];
    for (;;) {
      const ssize_t got = ::recv(fd_.get(), buffer, sizeof(buffer), 0);
      if (got <= 0) return all;
      all.append(buffer, static_cast<size_t>(got));
    }
  }

 private:
  UniqueFd fd_;
};

TEST(HttpServerTest, AnIdleConnectionDoesNotKeepItFromStopping) {
  auto server = Start(Echo(), {.timeout = absl::Hours(1)});
  RawClient idle(*server);
  RawClient begun(*server);
  EXPECT_TRUE(begun.Send("GET /ec"));
  server->Stop();
  EXPECT_EQ(begun.ReadToEnd(), "");
}

TEST(HttpServerTest, SlowClientsKeepNobodyWaiting) {
  auto server = Start(Echo(), {.threads = 1, .timeout = absl::Hours(1)});
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 20; ++i) {
    slow.push_back(std::make_unique<RawClient>(*server));
    EXPECT_TRUE(slow.back()->Send("GET /echo?a=1 HTTP/1.1\r\nX: "));
  }
  auto result = httplib::Client("http://" + server->address()).Get("/echo?a=1");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->body, "a=1;");
  // A request that comes in pieces is served when it is whole.
  EXPECT_TRUE(slow.front()->Send("y\r\n\r\n"));
  EXPECT_THAT(slow.front()->ReadToEnd(), HasSubstr("\r\n\r\na=1;"));
}

TEST(HttpServerTest, ARequestHasItsTime) {
  auto server = Start(Echo(), {.timeout = absl::Milliseconds(50)});
  RawClient slow(*server);
  EXPECT_TRUE(slow.Send("GET /echo HTTP/1.1\r\n"));
  EXPECT_EQ(slow.ReadToEnd(), "") << "the server hangs up";
}

TEST(HttpServerTest, AHeadHasItsBound) {
  auto server = Start(Echo(), {.timeout = absl::Hours(1)});
  RawClient client(*server);
  EXPECT_TRUE(client.Send("GET /echo HTTP/1.1\r\n"));
  const std::string line = "X-Header: " + std::string(1000, 'x') + "\r\n";
  for (int i = 0; i < 17; ++i) EXPECT_TRUE(client.Send(line));
  EXPECT_THAT(client.ReadToEnd(), HasSubstr("431"));
}

TEST(HttpServerTest, OneAddressHasSoManyConnections) {
  auto server = Start(Echo(), {.max_per_peer = 2, .timeout = absl::Hours(1)});
  auto first = std::make_unique<RawClient>(*server);
  EXPECT_TRUE(first->Send("GET"));
  RawClient second(*server);
  EXPECT_TRUE(second.Send("GET"));
  RawClient third(*server);
  EXPECT_EQ(third.ReadToEnd(), "") << "closed at once";
  EXPECT_TRUE(second.Send(" /echo?a=1 HTTP/1.1\r\n\r\n"));
  EXPECT_THAT(second.ReadToEnd(), HasSubstr("a=1;"));
  first.reset();
  // Whoever goes makes room, once the server has noticed.
  std::string answer;
  while (answer.empty()) {
    RawClient fourth(*server);
    fourth.Send("GET /echo?a=4 HTTP/1.1\r\n\r\n");
    answer = fourth.ReadToEnd();
  }
  EXPECT_THAT(answer, HasSubstr("a=4;"));
}

TEST(HttpServerTest, WhenVeryManyAreOpenTheOldestGoesForEachThatComes) {
  std::atomic<uint64_t> displaced = 0;
  auto server = Start(Echo(), {.threads = 1,
                               .max_connections = 8,
                               .timeout = absl::Hours(1),
                               .crowd_timeout = absl::ZeroDuration(),
                               .displaced = &displaced});
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 20; ++i) {
    slow.push_back(std::make_unique<RawClient>(*server));
    EXPECT_TRUE(slow.back()->Send("GET /echo?a=1 HTTP/1.1\r\nX: "));
    // It is taken before the next one comes.
    while (displaced < static_cast<uint64_t>(std::max(0, i - 5))) std::this_thread::yield();
  }
  auto result = httplib::Client("http://" + server->address()).Get("/echo?a=2");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->body, "a=2;");
  EXPECT_EQ(slow.front()->ReadToEnd(), "");
  EXPECT_TRUE(slow.back()->Send("y\r\n\r\n"));
  EXPECT_THAT(slow.back()->ReadToEnd(), HasSubstr("a=1;"));
}

TEST(HttpServerTest, WhoConnectsWhileDescriptorsLackIsServedWhenThereAreSomeAgain) {
  // libmicrohttpd goes on in one way where it has connections, and in another where it has none.
  for (const bool has_others : {false, true}) {
    auto server = Start(Echo(), {.threads = 1, .timeout = absl::Hours(1)});
    RawClient early;
    RawClient late;
    if (has_others) {
      early.Connect(*server);
      EXPECT_TRUE(early.Send("GET /echo?a=1 HTTP/1.1\r\n"));
    }
    {
      const testing::NoDescriptors none;
      late.Connect(*server);
      EXPECT_TRUE(late.Send("GET /echo?a=2 HTTP/1.1\r\n\r\n"));
      EXPECT_TRUE(late.HearsNothing(std::chrono::milliseconds(300))) << "of what is it served?";
    }
    if (has_others) {
      EXPECT_TRUE(early.Send("\r\n"));
      EXPECT_THAT(early.ReadToEnd(), HasSubstr("a=1;"));
    }
    EXPECT_THAT(late.ReadToEnd(), HasSubstr("a=2;")) << has_others;
    RawClient next(*server);
    EXPECT_TRUE(next.Send("GET /echo?a=3 HTTP/1.1\r\n\r\n"));
    EXPECT_THAT(next.ReadToEnd(), HasSubstr("a=3;")) << has_others;
  }
}

TEST(HttpServerTest, AnAnswerThatNobodyReadsHasItsTime) {
  const std::string large(24 << 20, 'x');
  auto server =
      Start({{"/large", [&](const ServedRequest&) { return ServedResponse{.body = large}; }}},
            {.timeout = absl::Milliseconds(50)});
  RawClient client(*server);
  EXPECT_TRUE(client.Send("GET /large HTTP/1.1\r\n\r\n"));
  // The next one is served by a server that has let go of the first.
  while (client.Send("x")) std::this_thread::yield();
  EXPECT_LT(client.ReadToEnd().size(), large.size());
}

}  // namespace
}  // namespace muster
