// One HTTP request, once, over libcurl. Who repeats it is remote_caller.h.
//
// Connections are kept and used again by whatever thread asks next: a pool of handles, the last one
// given back first. Proxies come from the environment as curl reads it (https_proxy, no_proxy,
// ...); the certificates of HTTPS are verified. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace muster {

// Ends what was given it: requests, and waits between them. For good, since who stops is leaving.
// Thread-safe.
class HttpStop {
 public:
  void Stop() MUSTER_EXCLUDES(mutex_);
  bool is_stopped() const { return is_stopped_; }
  // False: it was stopped before so long had passed.
  bool Sleep(absl::Duration duration) MUSTER_EXCLUDES(mutex_);

 private:
  std::atomic<bool> is_stopped_ = false;
  Mutex mutex_;
  CondVar stopped_;
};

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;
  absl::string_view body;  // of PUT, POST and PATCH; must outlive the call
  // The body of an answer 2xx goes to the buffer when there is one, else to HttpResponse::body, up
  // to so many bytes. A longer one is cut off, and the response says so.
  char* buffer = nullptr;
  uint64_t buffer_bytes = 0;
  uint64_t max_body_bytes = 0;
  // An answer 206 that breaks off, or whose time is over, after so many bytes is given as far as it
  // came. 0: never.
  uint64_t worth_keeping_bytes = 0;
  // Up to five; https leads to https only. Never for what is signed.
  bool follow_redirects = false;
  absl::Duration deadline = absl::Minutes(1);  // of all of it, connecting included
  const HttpStop* stop = nullptr;              // ends it within about a second; null: nothing does
};

struct HttpResponse {
  int code = 0;
  std::map<std::string, std::string> headers;  // names in lower case; of two, the last
  std::string body;                            // of other answers than 2xx: its first 4 KiB
  uint64_t body_bytes = 0;                     // that arrived
  bool is_cut_off = false;                     // the body is longer than there was room for
  std::string effective_url;                   // after redirects

  bool is_success() const { return code >= 200 && code < 300; }
  absl::string_view header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? absl::string_view() : found->second;
  }
};

struct HttpClientOptions {
  absl::Duration connect_timeout = absl::Seconds(15);
  // A transfer slower than this for so long is given up: a server that stalls holds nobody.
  uint64_t low_speed_bytes_per_second = 1024;
  absl::Duration low_speed_time = absl::Seconds(15);  // whole seconds
  std::string ca_bundle;                              // a file of certificates; empty: the system's
  bool use_proxy = true;  // of the environment; false: none, whatever stands there
};

class HttpClient {
 public:
  explicit HttpClient(HttpClientOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Any answer of the server, whatever its code. Else what went wrong between: UNAVAILABLE (no
  // connection, a reset, a body shorter than its Content-Length) and DEADLINE_EXCEEDED (also for
  // too low a speed), which may pass; FAILED_PRECONDITION for certificates that nobody trusts or
  // too many redirects; INVALID_ARGUMENT for a URL that curl does not take; CANCELLED by its stop.
  // Messages hold no URL.
  absl::StatusOr<HttpResponse> Perform(const HttpRequest& request);

  // How many connections were opened so far.
  uint64_t connections() const MUSTER_EXCLUDES(mutex_);

 private:
  class Handle;
  std::unique_ptr<Handle> Take() MUSTER_EXCLUDES(mutex_);
  void GiveBack(std::unique_ptr<Handle> handle, uint64_t new_connections) MUSTER_EXCLUDES(mutex_);

  const HttpClientOptions options_;
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<Handle>> idle_ MUSTER_GUARDED_BY(mutex_);
  uint64_t connections_ MUSTER_GUARDED_BY(mutex_) = 0;
};

}  // namespace muster
