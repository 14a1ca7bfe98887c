// A small HTTP/1.1 server for what a daemon shows to machines and browsers: /metrics, /healthz,
// /readyz, a page. GET and HEAD only, one request a connection. It needs no token, so nobody may
// take it from others: one thread turns all connections and waits for none of them, each has a time
// for its request and one for its answer, and heads, connections and those of one address are
// bounded.
//
// Handlers run on threads of their own, several at a time, and must be thread-safe. They must not
// throw, and must not stop the server.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/metrics/http_text.h"

namespace muster {

using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

class HttpServer {
 public:
  struct Options {
    std::string listen = "127.0.0.1:0";  // HOST:PORT, [IPv6]:PORT; port 0: a free one
    int threads = 2;                     // handlers that run at a time
    size_t max_connections = 256;        // more wait in the kernel's backlog
    size_t max_per_peer = 64;            // of one address; more are closed at once
    size_t max_head_bytes = 16 << 10;    // then 431
    absl::Duration request_timeout = absl::Seconds(5);    // from the accept to the head's end
    absl::Duration response_timeout = absl::Seconds(30);  // until the client has read the answer
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

// /metrics from `render`, /healthz and /readyz from callbacks: 200 "ok" or 503 with the status'
// message.
std::map<std::string, HttpHandler> DaemonHandlers(std::function<std::string()> render,
                                                  std::function<absl::Status()> healthy,
                                                  std::function<absl::Status()> ready);

}  // namespace muster
