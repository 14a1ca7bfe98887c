// Signs requests to S3 by AWS Signature Version 4, in the Authorization header. Pure.
//
// After "Signature Calculations for the Authorization Header: Transferring Payload in a Single
// Chunk" of the S3 API reference, whose examples the test recomputes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

struct AwsCredentials {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token;  // empty: none

  bool operator==(const AwsCredentials&) const = default;
};

struct RequestToSign {
  std::string method;
  std::string path;   // as it is sent, percent-encoded once
  std::string query;  // as it is sent, sorted (EncodeQuery)
  // All that are sent and to be signed, Host included; names in any case.
  std::vector<std::pair<std::string, std::string>> headers;
  std::string payload_sha256;  // 64 hex digits
};

// "20130524T000000Z"
std::string AmzDate(absl::Time time);

// The value of the Authorization header. `headers` must hold x-amz-date of the same time.
std::string SigV4Authorization(const RequestToSign& request, const AwsCredentials& credentials,
                               absl::string_view region, absl::Time time);

}  // namespace muster
