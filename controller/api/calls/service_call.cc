#include "controller/api/calls/service_call.h"

#include "absl/strings/str_cat.h"
#include "common/base/version.h"
#include "common/metrics/metric_names.h"

namespace muster::controller {

namespace {

int64_t MillisOf(absl::Duration wait) { return absl::ToInt64Milliseconds(wait) + 1; }

absl::Status TooMany(absl::Duration wait) {
  return absl::ResourceExhaustedError(
      absl::StrCat("too many calls from here: try again in ", MillisOf(wait),
                   " ms (musterd --calls-per-second is the bound of each caller)"));
}

}  // namespace

absl::Status Stopping() {
  return absl::UnavailableError("the controller is stopping: connect again soon");
}

absl::Status CallGate::CheckHeaders(absl::string_view authorization) {
  absl::Status known = CheckAuthorization(authorization, token_);
  // Not by method: strangers name what they like.
  if (!known.ok()) CountCall("any", known.code(), absl::ZeroDuration());
  return known;
}

absl::Status CallGate::Check(grpc::ServerContextBase& context) {
  const absl::Status known = CheckToken(context, token_);
  const absl::Duration wait = WaitOf(CallerOf(context));
  if (wait == absl::ZeroDuration()) return known;
  context.AddTrailingMetadata(kRetryAfterKey, absl::StrCat(MillisOf(wait)));
  return TooMany(wait);
}

std::string CallGate::CallerOf(const grpc::ServerContextBase& context) const {
  const bool known = CheckToken(context, token_).ok();
  return absl::StrCat(known ? "token@" : "nobody@", HostOfPeer(context.peer()));
}

absl::Status CallGate::Admit(const std::string& caller) {
  const absl::Duration wait = WaitOf(caller);
  return wait == absl::ZeroDuration() ? absl::OkStatus() : TooMany(wait);
}

absl::Duration CallGate::WaitOf(const std::string& caller) {
  MutexLock lock(mutex_);
  return limiter_.Admit(caller, clock_.SinceBoot());
}

std::string HostOfPeer(const std::string& peer) {
  const size_t port = peer.rfind(':');
  return port == std::string::npos || port == peer.find(':') ? peer : peer.substr(0, port);
}

void CallGate::CountCall(const char* method, absl::StatusCode code, absl::Duration took) {
  families_.Add(metric::kRpcRequestsTotal, {method, absl::StatusCodeToString(code)});
  families_.Add(metric::kRpcSecondsTotal, {method}, absl::ToDoubleSeconds(took));
}

void CallGate::StreamOpened(const char* method) { families_.Add(metric::kRpcStreams, {method}, 1); }

void CallGate::StreamClosed(const char* method, absl::StatusCode code) {
  families_.Add(metric::kRpcStreams, {method}, -1);
  families_.Add(metric::kRpcRequestsTotal, {method, absl::StatusCodeToString(code)});
}

absl::Status CheckProtocolVersion(uint32_t theirs, absl::string_view side) {
  if (theirs >= kOldestPeer && theirs <= kProtocolVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "protocol versions differ: ", side, " speaks ", theirs, ", musterd ", Version(), " speaks ",
      kProtocolVersion, "; install the same Muster release on both sides (",
      theirs < kProtocolVersion ? side : "musterd", " is the older one)"));
}

}  // namespace muster::controller
