// What every call has in common: the token and the caller's rate are checked first, the answer is
// counted, the status is mapped.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/metrics/metric_families.h"
#include "common/rpc/status_map.h"
#include "common/rpc/token.h"
#include "controller/api/calls/rate_limiter.h"
#include "controller/api/calls/stream_watch.h"

namespace muster::controller {

// UNAVAILABLE: what a call hears that comes, or still runs, when the controller stops.
absl::Status Stopping();

// Checks and counts calls. Thread-safe; outlives the services.
class CallGate {
 public:
  // `limit`: of each principal's calls; none unless given.
  CallGate(std::string token, MetricFamilies& families, Clock& clock, const RateLimit& limit = {},
           const StreamPatience& patience = {})
      : token_(std::move(token)),
        families_(families),
        clock_(clock),
        patience_(patience),
        limiter_(limit) {}

  // What can be told from a call's headers, before any handler hears of it: UNAUTHENTICATED as in
  // Check, and counted.
  absl::Status CheckHeaders(absl::string_view authorization);
  // UNAUTHENTICATED: no token, or another one. RESOURCE_EXHAUSTED: too many calls; the message and
  // the trailing metadata kRetryAfterKey say after how long the next one may come.
  absl::Status Check(grpc::ServerContextBase& context) MUSTER_EXCLUDES(mutex_);
  // Whose budget a call takes from; for Admit.
  std::string CallerOf(const grpc::ServerContextBase& context) const;
  // One more request on a stream that Check has let in: RESOURCE_EXHAUSTED as there, without the
  // metadata.
  absl::Status Admit(const std::string& caller) MUSTER_EXCLUDES(mutex_);
  absl::Duration Now() const { return clock_.SinceBoot(); }
  const StreamPatience& patience() const { return patience_; }

  void CountCall(const char* method, absl::StatusCode code, absl::Duration took);
  void StreamOpened(const char* method);
  void StreamClosed(const char* method, absl::StatusCode code);

 private:
  absl::Duration WaitOf(const std::string& caller) MUSTER_EXCLUDES(mutex_);

  const std::string token_;
  MetricFamilies& families_;
  Clock& clock_;
  const StreamPatience patience_;
  Mutex mutex_;
  RateLimiter limiter_ MUSTER_GUARDED_BY(mutex_);
};

// Trailing metadata of a call that came too soon: milliseconds.
inline constexpr char kRetryAfterKey[] = "retry-after-ms";

// The address without its port: "ipv4:10.0.0.1" of "ipv4:10.0.0.1:40312".
std::string HostOfPeer(const std::string& peer);

// Tells a caller of another protocol what to do. `side` is who called ("the client", "the agent").
absl::Status CheckProtocolVersion(uint32_t theirs, absl::string_view side);

// A unary call under way. Finish it exactly once, from any thread; it deletes itself.
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  // `method` must be a literal.
  UnaryCall(CallGate& gate, const char* method)
      : gate_(gate), method_(method), began_(gate.Now()) {}

  void Done(const absl::Status& status) {
    gate_.CountCall(method_, status.code(), gate_.Now() - began_);
    Finish(ToGrpc(status));
  }

 private:
  void OnDone() override { delete this; }

  CallGate& gate_;
  const char* method_;
  const absl::Duration began_;
};

}  // namespace muster::controller
