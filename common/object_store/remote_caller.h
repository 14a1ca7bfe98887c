// One operation on a server: signs for S3, sends, repeats what may pass, and says what went wrong.
//
// Used by RemoteFileSystem and S3Upload. An error names the method and the URL (never its query),
// the HTTP code, the server's word for it (bounded), how often it was tried, and the way out; no
// secret. Where S3 refuses the credentials they are read again, and others are tried at once.
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/object_store/aws_settings.h"
#include "common/object_store/http_client.h"
#include "common/object_store/remote_path.h"
#include "common/object_store/retry_rules.h"

namespace muster {

struct RemoteOptions {
  RetryPolicy retry;
  HttpClientOptions http;  // its ca_bundle: AwsSettings' if it is empty
  // Both outlive whoever is given them; nullptr and nothing: the real ones. Cancel cuts the real
  // sleep short.
  Clock* clock = nullptr;
  std::function<void(absl::Duration)> sleep;
  uint64_t jitter_seed = 0;  // 0: a random one
};

struct RemoteCall {
  std::string method = "GET";
  RemotePath path;
  QueryParameters query;  // of S3
  std::vector<std::pair<std::string, std::string>> headers;
  absl::string_view body;
  char* buffer = nullptr;  // as HttpRequest's
  uint64_t buffer_bytes = 0;
  uint64_t max_body_bytes = 0;
  uint64_t worth_keeping_bytes = 0;
  // Codes beside 2xx that the caller understands.
  std::vector<int> expected;
  // Looks at each answer that is expected. UNAVAILABLE: ask again; another error ends the call.
  std::function<absl::Status(const HttpResponse&)> check;
};

struct RemoteAnswer {
  HttpResponse response;
  int attempts = 0;  // made; more than one: an earlier one may have been carried out
};

class RemoteCaller {
 public:
  RemoteCaller(AwsSettings settings, RemoteOptions options);

  // An answer 2xx or of an expected code, which `check` took. Else the errors of CodeOfHttp,
  // HttpClient::Perform and `check`; DEADLINE_EXCEEDED when the operation's time is over;
  // CANCELLED.
  absl::StatusOr<RemoteAnswer> Call(const RemoteCall& call) MUSTER_EXCLUDES(mutex_);

  // Ends all calls within about a second, and those that come later at once.
  void Cancel() { stop_.Stop(); }

  // What a call failed by that is repeated, unless some call has succeeded since; empty: nothing.
  std::string trouble() const MUSTER_EXCLUDES(mutex_);

  // "<method> <URL>: <what>", as Call names it.
  absl::Status Error(const RemoteCall& call, absl::StatusCode code, absl::string_view what) const;

  const HttpClient& http() const { return http_; }

 private:
  // The URL in parts, as they are signed and sent.
  struct Target {
    std::string url;
    std::string host;
    std::string path;
    std::string query;
  };
  Target TargetOf(const RemoteCall& call) const;
  HttpRequest RequestOf(const RemoteCall& call, const std::optional<AwsCredentials>& credentials);
  std::optional<AwsCredentials> Credentials() const MUSTER_EXCLUDES(mutex_);
  // Whether there are other credentials by now than those that were refused.
  bool RenewCredentials(const std::optional<AwsCredentials>& refused) MUSTER_EXCLUDES(mutex_);
  absl::Status ErrorOfAnswer(const RemoteCall& call, const HttpResponse& response) const;
  // OK: the answer is the call's result.
  absl::Status Attempt(const RemoteCall& call, absl::Duration deadline, bool& may_pass,
                       absl::Duration& asked_for, HttpResponse& response);
  // Of an operation, as things are.
  absl::Duration Deadline() const;
  void NoteTrouble(absl::string_view trouble) MUSTER_EXCLUDES(mutex_);
  void Sleep(absl::Duration delay);

  const AwsSettings settings_;
  const RemoteOptions options_;
  RealClock real_clock_;
  Clock& clock_;
  HttpClient http_;
  HttpStop stop_;
  std::atomic<uint64_t> delays_ = 0;  // drawn so far
  std::atomic<bool> is_troubled_ = false;
  std::atomic<bool> has_answered_ = false;  // a server, anything
  mutable Mutex mutex_;
  std::optional<AwsCredentials> credentials_ MUSTER_GUARDED_BY(mutex_);
  std::string trouble_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster
