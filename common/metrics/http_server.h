// The HTTP port, for what a daemon shows to machines and browsers: /metrics, /healthz, /readyz, a
// page. GET and HEAD only, one request a connection. No token is needed, so one client must not
// starve the others: no thread waits for a client, each connection has a time limit, and the size
// of heads, the connections, and those of one address are bounded.
//
// Handlers run on the server's threads, several at a time, and must be thread-safe. They must not
// throw, wait for long, or stop the server.
#pragma once

#include <prometheus/collectable.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace muster {

struct HttpRequest {
  std::string path;
  std::multimap<std::string, std::string> query;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

class HttpServer {
 public:
  struct Options {
    std::string listen = "127.0.0.1:0";          // HOST:PORT, [IPv6]:PORT; port 0: a free one
    int threads = 2;                             // each serves its share of the connections
    size_t max_connections = 256;                // more wait in the kernel's backlog
    size_t max_per_peer = 64;                    // of one address; more are closed at once
    size_t max_head_bytes = 16 << 10;            // memory for the heads of request and response;
                                                 // a longer request gets 431
    absl::Duration timeout = absl::Seconds(30);  // from the accept to the answer's end
  };

  // Binds, and serves `handlers` by exact path; any other path is 404. When it returns, address()
  // is known and connections are accepted. INVALID_ARGUMENT: `listen` is no HOST:PORT.
  // FAILED_PRECONDITION: it cannot be bound (in use, no such address); the message names it.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Create(
      const Options& options, std::map<std::string, HttpHandler> handlers);

  // Stops. No handler runs after it returns.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // HOST:PORT as bound.
  const std::string& address() const { return address_; }

  // Accepts no more, lets handlers that run finish, closes all connections, joins the threads. May
  // be called more than once, by the owner.
  void Stop();

 private:
  class Impl;
  HttpServer();

  std::unique_ptr<Impl> impl_;
  std::string address_;
};

// /metrics in Prometheus text format 0.0.4 from `metrics`, which outlive the server; /healthz and
// /readyz from callbacks: 200 "ok" or 503 with the status' message.
std::map<std::string, HttpHandler> DaemonHandlers(
    std::vector<const prometheus::Collectable*> metrics, std::function<absl::Status()> healthy,
    std::function<absl::Status()> ready);

}  // namespace muster
