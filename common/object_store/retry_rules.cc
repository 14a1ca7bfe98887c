#include "common/object_store/retry_rules.h"

#include <algorithm>

#include "common/base/rng.h"

namespace muster {

bool MayPass(int http_code) {
  return http_code == 408 || http_code == 429 || http_code == 500 || http_code == 502 ||
         http_code == 503 || http_code == 504;
}

bool MayPass(const absl::Status& transport_error) {
  return absl::IsUnavailable(transport_error) || absl::IsDeadlineExceeded(transport_error);
}

absl::Duration RetryDelay(const RetryPolicy& policy, int attempt, absl::Duration asked_for,
                          uint64_t seed) {
  const int doublings = std::clamp(attempt - 1, 0, 30);
  const absl::Duration whole =
      std::min(policy.max_delay, policy.first_delay * (int64_t{1} << doublings));
  const double fraction = static_cast<double>(SplitMix64(seed) >> 11) * 0x1p-53;
  return std::min(policy.max_delay, std::max(asked_for, whole * (0.5 + 0.5 * fraction)));
}

absl::StatusCode CodeOfHttp(int http_code) {
  if (MayPass(http_code)) return absl::StatusCode::kUnavailable;
  switch (http_code) {
    case 401:
    case 403:
      return absl::StatusCode::kPermissionDenied;
    case 404:
    case 410:
      return absl::StatusCode::kNotFound;
    case 416:
      return absl::StatusCode::kOutOfRange;
    case 501:
      return absl::StatusCode::kUnimplemented;
    default:
      return absl::StatusCode::kFailedPrecondition;
  }
}

std::string WayOut(int http_code, absl::string_view server_code, bool is_signed) {
  if (server_code == "RequestTimeTooSkewed") return "set this machine's clock";
  if (server_code == "ExpiredToken") return "renew the session token and start again";
  if (server_code == "SignatureDoesNotMatch" || server_code == "InvalidAccessKeyId") {
    return "check the access key and its secret";
  }
  if (server_code == "NoSuchBucket") return "check the bucket's name and AWS_ENDPOINT_URL";
  if (server_code == "AuthorizationHeaderMalformed" || server_code == "PermanentRedirect" ||
      http_code == 301) {
    return "set AWS_REGION to the bucket's region";
  }
  switch (CodeOfHttp(http_code)) {
    case absl::StatusCode::kPermissionDenied:
      return is_signed ? "let this access key read the path, and list the bucket"
                       : "the request was not signed: for S3, give AWS_ACCESS_KEY_ID and "
                         "AWS_SECRET_ACCESS_KEY or a profile";
    case absl::StatusCode::kNotFound:
      return "check the path";
    case absl::StatusCode::kUnavailable:
      return "the server is overloaded or down: try again later";
    case absl::StatusCode::kOutOfRange:
      return "the file is shorter than what is read of it: was it replaced?";
    default:
      return "check the URL, and whether the server is what it is taken for";
  }
}

}  // namespace muster
