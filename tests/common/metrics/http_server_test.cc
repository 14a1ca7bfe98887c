#include "common/metrics/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/unique_fd.h"
#include "common/metrics/registry.h"
#include "tests/support/status_matchers.h"

namespace muster {
namespace {

using ::muster::testing::StatusIs;
using ::testing::HasSubstr;

std::map<std::string, HttpHandler> Echo() {
  return {{"/echo", [](const HttpRequest& request) {
             HttpResponse response;
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
  Registry registry(WorkerMetrics(), metric::kWorkerDroppedTotal);
  const auto ok = [] { return absl::OkStatus(); };
  auto server = Start(DaemonHandlers([&] { return registry.Render(); }, ok, ok));
  httplib::Client client("http://" + server->address());
  registry.Set(metric::kWorkerConnected, 1);
  auto result = client.Get("/metrics");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, 200);
  EXPECT_EQ(result->get_header_value("Content-Type"), kPrometheusContentType);
  EXPECT_THAT(result->body, HasSubstr("muster_worker_connected 1\n"));
}

TEST(HttpServerTest, HealthAndReadinessSayWhyNot) {
  auto server = Start(DaemonHandlers([] { return std::string(); }, [] { return absl::OkStatus(); },
                                     [] { return absl::UnavailableError("still loading"); }));
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

TEST(HttpServerTest, OnlyReadsAreServed) {
  auto server = Start(Echo());
  auto result = httplib::Client("http://" + server->address()).Post("/echo", "", "text/plain");
  ASSERT_TRUE(result);
  EXPECT_NE(result->status, 200);
}

TEST(HttpServerTest, ManyClientsShareFewThreads) {
  auto server = Start(Echo(), {.threads = 2, .max_waiting = 1});
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

TEST(HttpServerTest, AnIdleConnectionDoesNotKeepItFromStopping) {
  auto server = Start(Echo(), {.io_timeout = absl::Milliseconds(200)});
  const int port = std::stoi(server->address().substr(server->address().rfind(':') + 1));
  UniqueFd idle(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(idle.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  server->Stop();
}

}  // namespace
}  // namespace muster
