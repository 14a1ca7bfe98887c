// The HTTP port, for what a daemon shows to machines and browsers: /metrics, /healthz, /readyz, a
// page. GET and HEAD, POST where a folder takes it; one request a connection. Strangers may
// connect, so one client must not starve the others: no thread waits for a client, each connection
// has a time limit, and the size of heads and bodies, the connections, and those of one address
// are bounded. Beyond loopback it is to be encrypted, and to want a token.
//
// Handlers run on the server's threads, several at a time, and must be thread-safe. They must not
// throw, wait for long, or stop the server. One that has to wait for others answers later.
#pragma once

#include <prometheus/collectable.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/tls/tls_files.h"

namespace muster {

struct ServedRequest {
  std::string path;
  std::multimap<std::string, std::string> query;
  bool is_post = false;                        // else GET or HEAD
  std::map<std::string, std::string> headers;  // by name in lower case; of several the last one
  std::string body;                            // of a POST
};

struct ServedResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // besides Content-Type
};

using HttpHandler = std::function<ServedResponse(const ServedRequest&)>;

// Answers when it can, on any thread: calls `done` exactly once, also when nobody wants the answer
// any more. HttpServer::Stop waits for that.
using HttpDone = std::function<void(ServedResponse)>;
struct HttpFolder {
  std::function<void(ServedRequest request, HttpDone done)> handler;
  size_t max_body_bytes = 0;  // of a POST; 0: GET and HEAD only
};

class HttpServer {
 public:
  struct Options {
    std::string listen = "127.0.0.1:0";  // HOST:PORT, [IPv6]:PORT; port 0: a free one
    int threads = 2;                     // each serves its share of the connections
    // More wait in the kernel's backlog. When three quarters are open, each that comes shortens the
    // time of another one to `crowd_timeout`: of the oldest of the address that has most.
    size_t max_connections = 256;
    size_t max_per_peer = 64;                    // of one address; more are closed at once
    size_t max_head_bytes = 16 << 10;            // memory for the heads of request and response;
                                                 // a longer request gets 431
    absl::Duration timeout = absl::Seconds(30);  // from the accept to the answer's end
    absl::Duration crowd_timeout = absl::Milliseconds(100);
    // The file with the certificate and its key (TlsWatcher's copy); empty: nothing is encrypted.
    // What replaces it is in use within `refresh`.
    std::string identity_file = {};
    absl::Duration refresh = absl::Seconds(kTlsRefreshSeconds);
    // Wanted for the handlers but http_guard.h's open paths and these; empty: for none. Folders ask
    // for what they want themselves.
    std::string token = {};
    std::set<std::string> open_paths = {};
    // Not null: counts the connections that ended for others; outlives the server.
    std::atomic<uint64_t>* displaced = nullptr;
  };

  // Binds, and serves `handlers` by exact path, and what lies below each of `folders` ("/api/");
  // any other path is 404. When it returns, address() is known and connections are accepted.
  // INVALID_ARGUMENT: `listen` is no HOST:PORT, or the identity cannot be used.
  // FAILED_PRECONDITION: it cannot be bound (in use, no such address); the message names it.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Create(
      const Options& options, std::map<std::string, HttpHandler> handlers,
      std::map<std::string, HttpFolder> folders = {});

  // Stops. No handler runs after it returns.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // HOST:PORT as bound.
  const std::string& address() const { return address_; }

  // Accepts no more, lets handlers that run finish, waits for answers that are due, closes all
  // connections, joins the threads. May be called more than once, by the owner.
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
