// What a path of the object store names: "s3://bucket/key", "http://..." or "https://...". Pure.
//
// A key of S3 is raw bytes. A path of HTTP is a URL as browsers show it: "%20" stays what it is,
// bytes that no URL may hold (spaces, UTF-8) are encoded for the request, a '%' before no two hex
// digits too.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

struct RemotePath {
  bool is_s3 = false;
  std::string bucket;  // of S3
  std::string key;     // of S3, not encoded; empty: the bucket itself
  std::string url;     // of HTTP, encoded, with its query
};

// Whether the path begins with a scheme of the object store.
bool IsRemotePath(absl::string_view path);

// INVALID_ARGUMENT for another scheme, control characters, no host, a user name in the URL, a
// bucket that is no name of S3, or more than 8 KiB.
absl::StatusOr<RemotePath> ParseRemotePath(absl::string_view path);

// The folder as a path that ends in one slash, before its query if it has one.
std::string WithTrailingSlash(absl::string_view path);

// RFC 3986: all but letters, digits and "-._~" becomes %XX; slashes stay if keep_slashes.
std::string PercentEncode(absl::string_view bytes, bool keep_slashes);

// INVALID_ARGUMENT for a '%' before no two hex digits.
absl::StatusOr<std::string> PercentDecode(absl::string_view text);

using QueryParameters = std::vector<std::pair<std::string, std::string>>;

// "a=1&b=2" of parameters that are not encoded, sorted as SigV4 wants them.
std::string EncodeQuery(const QueryParameters& parameters);

// The URL without user, password, query and fragment, which may be secrets, at most 512 bytes of
// it. For errors and logs.
std::string UrlForPeople(absl::string_view url);

// The query of a URL without '?', or nothing.
absl::string_view QueryOf(absl::string_view url);

}  // namespace muster
