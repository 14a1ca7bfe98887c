#include "common/object_store/remote_path.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

constexpr size_t kMaxPathBytes = 8192;
constexpr size_t kMaxBytesForPeople = 512;
constexpr absl::string_view kHexDigits = "0123456789ABCDEF";

void AppendEncoded(unsigned char c, std::string& out) {
  out += '%';
  out += kHexDigits[c >> 4];
  out += kHexDigits[c & 15];
}

bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

bool IsUnreserved(unsigned char c) {
  return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

// What a URL may hold as it is: RFC 3986's reserved and unreserved characters, but '#', which would
// begin a fragment that no server sees.
bool MayStandInUrl(unsigned char c) {
  return IsUnreserved(c) || absl::string_view(":/?[]@!$&'()*+,;=").find(static_cast<char>(c)) !=
                                absl::string_view::npos;
}

bool IsEncodedByte(absl::string_view text) {
  return text.size() >= 3 && text[0] == '%' &&
         absl::ascii_isxdigit(static_cast<unsigned char>(text[1])) &&
         absl::ascii_isxdigit(static_cast<unsigned char>(text[2]));
}

std::string EncodeForUrl(absl::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if (MayStandInUrl(c) || IsEncodedByte(text.substr(i))) {
      out += text[i];
    } else {
      AppendEncoded(c, out);
    }
  }
  return out;
}

bool IsBucketName(absl::string_view bucket) {
  return bucket.size() >= 3 && bucket.size() <= 255 &&
         std::all_of(bucket.begin(), bucket.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' ||
                  c == '_';
         });
}

// "host", "host:80", "[::1]:80". A password with a slash in it would be taken for a port.
bool IsHostAndPort(absl::string_view authority) {
  absl::string_view host = authority;
  const size_t colon = authority.rfind(':');
  if (colon != absl::string_view::npos && authority.back() != ']') {
    const absl::string_view port = authority.substr(colon + 1);
    host = authority.substr(0, colon);
    if (port.empty() || port.size() > 5 || !std::all_of(port.begin(), port.end(), IsDigit)) {
      return false;
    }
  }
  const bool is_v6 = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (is_v6) host = host.substr(1, host.size() - 2);
  return !host.empty() && std::all_of(host.begin(), host.end(), [&](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_' ||
           (is_v6 && c == ':');
  });
}

absl::StatusOr<RemotePath> ParseS3(absl::string_view path, absl::string_view rest) {
  const size_t slash = rest.find('/');
  RemotePath remote;
  remote.is_s3 = true;
  remote.bucket = std::string(rest.substr(0, slash));
  if (slash != absl::string_view::npos) remote.key = std::string(rest.substr(slash + 1));
  if (!IsBucketName(remote.bucket)) {
    return absl::InvalidArgumentError(
        absl::StrCat(UrlForPeople(path),
                     " names no bucket: write s3://BUCKET/KEY, with 3 to 255 letters, "
                     "digits, dots, dashes or underscores for the bucket"));
  }
  return remote;
}

absl::StatusOr<RemotePath> ParseHttp(absl::string_view path, absl::string_view scheme,
                                     absl::string_view rest) {
  const absl::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  if (authority.find('@') != absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(UrlForPeople(path),
                     " holds a user name or password; paths end up in logs, so give a URL without "
                     "them (or one that is signed in its query)"));
  }
  if (!IsHostAndPort(authority)) {
    return absl::InvalidArgumentError(
        absl::StrCat(UrlForPeople(path), " names no host: write ", scheme, "HOST/PATH"));
  }
  absl::string_view tail = rest.substr(authority.size());
  RemotePath remote;
  const bool has_path = !tail.empty() && tail[0] == '/';
  remote.url = absl::StrCat(scheme, authority, has_path ? "" : "/", EncodeForUrl(tail));
  return remote;
}

}  // namespace

bool IsRemotePath(absl::string_view path) {
  return absl::StartsWith(path, "s3://") || absl::StartsWith(path, "http://") ||
         absl::StartsWith(path, "https://");
}

absl::StatusOr<RemotePath> ParseRemotePath(absl::string_view path) {
  if (path.size() > kMaxPathBytes) {
    return absl::InvalidArgumentError(absl::StrCat(UrlForPeople(path), " is longer than ",
                                                   kMaxPathBytes, " bytes, more than a path may"));
  }
  if (std::any_of(path.begin(), path.end(),
                  [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); })) {
    return absl::InvalidArgumentError(
        absl::StrCat(UrlForPeople(path), " holds a control character"));
  }
  absl::string_view rest = path;
  if (absl::ConsumePrefix(&rest, "s3://")) return ParseS3(path, rest);
  if (absl::ConsumePrefix(&rest, "https://")) return ParseHttp(path, "https://", rest);
  if (absl::ConsumePrefix(&rest, "http://")) return ParseHttp(path, "http://", rest);
  return absl::InvalidArgumentError(
      absl::StrCat(UrlForPeople(path),
                   " is no path of an object store: it begins with s3://, https:// or "
                   "http://"));
}

std::string WithTrailingSlash(absl::string_view path) {
  const size_t query = absl::StartsWith(path, "s3://") ? absl::string_view::npos : path.find('?');
  absl::string_view folder = path.substr(0, query);
  while (absl::ConsumeSuffix(&folder, "/")) {
  }
  return absl::StrCat(folder, "/",
                      query == absl::string_view::npos ? absl::string_view() : path.substr(query));
}

std::string PercentEncode(absl::string_view bytes, bool keep_slashes) {
  std::string out;
  for (const char c : bytes) {
    if (IsUnreserved(static_cast<unsigned char>(c)) || (keep_slashes && c == '/')) {
      out += c;
    } else {
      AppendEncoded(static_cast<unsigned char>(c), out);
    }
  }
  return out;
}

absl::StatusOr<std::string> PercentDecode(absl::string_view text) {
  const auto value = [](char c) {
    return kHexDigits.find(absl::ascii_toupper(static_cast<unsigned char>(c)));
  };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (!IsEncodedByte(text.substr(i))) {
      return absl::InvalidArgumentError("a '%' stands before no two hex digits");
    }
    out += static_cast<char>(value(text[i + 1]) << 4 | value(text[i + 2]));
    i += 2;
  }
  return out;
}

std::string EncodeQuery(const QueryParameters& parameters) {
  std::vector<std::string> encoded;
  for (const auto& [name, value] : parameters) {
    encoded.push_back(absl::StrCat(PercentEncode(name, false), "=", PercentEncode(value, false)));
  }
  std::sort(encoded.begin(), encoded.end());
  return absl::StrJoin(encoded, "&");
}

std::string UrlForPeople(absl::string_view url) {
  absl::string_view shown = url.substr(0, url.find_first_of("?#"));
  std::string scheme;
  if (const size_t end = shown.find("://"); end != absl::string_view::npos) {
    scheme = std::string(shown.substr(0, end + 3));
    shown.remove_prefix(end + 3);
  }
  // The last one: a password may hold more of them, and also a slash where somebody forgot to
  // encode it. A path with an '@' in its first segment loses what is before it, and no more.
  const absl::string_view until_second_slash = shown.substr(
      0, shown.find('/') == absl::string_view::npos ? absl::string_view::npos
                                                    : shown.find('/', shown.find('/') + 1));
  if (scheme != "s3://") {
    if (const size_t at = until_second_slash.rfind('@'); at != absl::string_view::npos) {
      shown.remove_prefix(at + 1);
    }
  }
  std::string text = absl::StrCat(scheme, shown.substr(0, kMaxBytesForPeople));
  for (char& c : text) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = '?';
  }
  if (shown.size() > kMaxBytesForPeople) text += "...";
  return text;
}

absl::string_view QueryOf(absl::string_view url) {
  url = url.substr(0, url.find('#'));
  const size_t query = url.find('?');
  return query == absl::string_view::npos ? absl::string_view() : url.substr(query + 1);
}

}  // namespace muster
