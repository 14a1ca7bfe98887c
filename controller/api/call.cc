#include "controller/api/call.h"

#include "absl/strings/str_cat.h"
#include "common/base/version.h"
#include "common/metrics/metric_names.h"

namespace muster::controller {

void CallGate::CountCall(const char* method, absl::StatusCode code, absl::Duration took) {
  registry_.Add(metric::kRpcRequestsTotal, {method, absl::StatusCodeToString(code)});
  registry_.Add(metric::kRpcSecondsTotal, {method}, absl::ToDoubleSeconds(took));
}

void CallGate::StreamOpened(const char* method) { registry_.Add(metric::kRpcStreams, {method}, 1); }

void CallGate::StreamClosed(const char* method, absl::StatusCode code) {
  registry_.Add(metric::kRpcStreams, {method}, -1);
  registry_.Add(metric::kRpcRequestsTotal, {method, absl::StatusCodeToString(code)});
}

absl::Status CheckProtocolVersion(uint32_t theirs, absl::string_view side) {
  if (theirs == kProtocolVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "protocol versions differ: ", side, " speaks ", theirs, ", musterd ", Version(), " speaks ",
      kProtocolVersion, "; install the same Muster release on both sides (",
      theirs < kProtocolVersion ? side : "musterd", " is the older one)"));
}

}  // namespace muster::controller
