#include "common/object_store/sigv4.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/os/sha256.h"

namespace muster {
namespace {

constexpr size_t kSha256Bytes = 32;

std::string HmacSha256(absl::string_view key, absl::string_view message) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> mac;
  unsigned size = 0;
  MUSTER_CHECK(::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()),
                      reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                      mac.data(), &size) != nullptr &&
                   size == kSha256Bytes,
               "a message is authenticated");
  return std::string(reinterpret_cast<const char*>(mac.data()), size);
}

// Spaces around a value go, and runs of them within become one.
std::string CanonicalValue(absl::string_view value) {
  return absl::StrJoin(absl::StrSplit(value, ' ', absl::SkipEmpty()), " ");
}

}  // namespace

std::string AmzDate(absl::Time time) {
  return absl::FormatTime("%Y%m%dT%H%M%SZ", time, absl::UTCTimeZone());
}

std::string SigV4Authorization(const RequestToSign& request, const AwsCredentials& credentials,
                               absl::string_view region, absl::Time time) {
  std::map<std::string, std::string> headers;
  for (const auto& [name, value] : request.headers) {
    headers[absl::AsciiStrToLower(name)] = CanonicalValue(value);
  }
  std::vector<std::string> names;
  std::string canonical =
      absl::StrCat(request.method, "\n", request.path, "\n", request.query, "\n");
  for (const auto& [name, value] : headers) {
    absl::StrAppend(&canonical, name, ":", value, "\n");
    names.push_back(name);
  }
  const std::string signed_headers = absl::StrJoin(names, ";");
  absl::StrAppend(&canonical, "\n", signed_headers, "\n", request.payload_sha256);

  const std::string date_time = AmzDate(time);
  const std::string date = date_time.substr(0, 8);
  const std::string scope = absl::StrCat(date, "/", region, "/s3/aws4_request");
  const std::string to_sign =
      absl::StrCat("AWS4-HMAC-SHA256\n", date_time, "\n", scope, "\n", Sha256Hex(canonical));

  std::string key = HmacSha256(absl::StrCat("AWS4", credentials.secret_access_key), date);
  for (const absl::string_view part :
       {region, absl::string_view("s3"), absl::string_view("aws4_request")}) {
    key = HmacSha256(key, part);
  }
  return absl::StrCat("AWS4-HMAC-SHA256 Credential=", credentials.access_key_id, "/", scope,
                      ",SignedHeaders=", signed_headers,
                      ",Signature=", absl::BytesToHexString(HmacSha256(key, to_sign)));
}

}  // namespace muster
