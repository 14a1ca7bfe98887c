#include "common/object_store/aws_settings.h"

#include <stdlib.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/object_store/remote_path.h"

namespace muster {
namespace {

constexpr uint64_t kMaxCredentialsFileBytes = uint64_t{1} << 20;
constexpr size_t kMaxValueBytes = 8192;  // a session token has about 1 KiB

absl::Status BadLine(int number, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("line ", number, " ", what));
}

// A value that goes into a header as it is.
bool IsPrintable(absl::string_view value) {
  return std::all_of(value.begin(), value.end(), [](char c) {
    return absl::ascii_isprint(static_cast<unsigned char>(c)) && c != ' ';
  });
}

std::string* FieldOf(absl::string_view key, AwsProfile& profile) {
  if (key == "aws_access_key_id") return &profile.credentials.access_key_id;
  if (key == "aws_secret_access_key") return &profile.credentials.secret_access_key;
  if (key == "aws_session_token") return &profile.credentials.session_token;
  if (key == "region") return &profile.region;
  return nullptr;
}

absl::Status CheckPair(const AwsCredentials& credentials, absl::string_view where) {
  if (credentials.access_key_id.empty() != credentials.secret_access_key.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, " gives only half of the access key: set both its id and its secret"));
  }
  for (const std::string* value :
       {&credentials.access_key_id, &credentials.secret_access_key, &credentials.session_token}) {
    if (!IsPrintable(*value) || value->size() > kMaxValueBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, " gives an access key with spaces or control characters in it: copy it anew"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<AwsProfile> LoadProfile(const EnvironmentLookup& environment, FileSystem& fs) {
  std::string file = environment("AWS_SHARED_CREDENTIALS_FILE");
  std::string profile = environment("AWS_PROFILE");
  const bool is_asked_for = !file.empty() || !profile.empty();
  if (profile.empty()) profile = "default";
  if (file.empty()) {
    const std::string home = environment("HOME");
    if (home.empty()) return AwsProfile{};
    file = home + "/.aws/credentials";
  }
  const absl::StatusOr<std::string> text = fs.ReadFile(file, kMaxCredentialsFileBytes);
  if (absl::IsNotFound(text.status()) && !is_asked_for) return AwsProfile{};
  if (!text.ok()) return text.status();
  absl::StatusOr<AwsProfile> parsed = ParseCredentialsFile(*text, profile);
  if (absl::IsNotFound(parsed.status())) {
    if (!is_asked_for) return AwsProfile{};
    return absl::NotFoundError(
        absl::StrCat(file, " has no profile [", profile, "]: add it, or set AWS_PROFILE"));
  }
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", parsed.status().message()));
  }
  MUSTER_RETURN_IF_ERROR(
      CheckPair(parsed->credentials, absl::StrCat(file, ", profile [", profile, "],")));
  return parsed;
}

absl::StatusOr<AwsProfile> LoadCredentials(const EnvironmentLookup& environment, FileSystem& fs) {
  AwsProfile profile;
  profile.credentials.access_key_id = environment("AWS_ACCESS_KEY_ID");
  profile.credentials.secret_access_key = environment("AWS_SECRET_ACCESS_KEY");
  MUSTER_RETURN_IF_ERROR(CheckPair(profile.credentials, "the environment"));
  if (profile.credentials.access_key_id.empty()) {
    MUSTER_ASSIGN_OR_RETURN(profile, LoadProfile(environment, fs));
  } else {
    profile.credentials.session_token = environment("AWS_SESSION_TOKEN");
    MUSTER_RETURN_IF_ERROR(CheckPair(profile.credentials, "the environment"));
  }
  return profile;
}

std::optional<AwsCredentials> CredentialsOf(const AwsProfile& profile) {
  if (profile.credentials.access_key_id.empty()) return std::nullopt;
  return profile.credentials;
}

absl::StatusOr<std::string> CheckedEndpoint(std::string endpoint) {
  while (absl::EndsWith(endpoint, "/")) endpoint.pop_back();
  const absl::StatusOr<RemotePath> parsed = ParseRemotePath(endpoint);
  if (!parsed.ok() || parsed->is_s3 || !QueryOf(parsed->url).empty()) {
    return absl::InvalidArgumentError(
        "AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL is no URL: write https://HOST or "
        "https://HOST:PORT");
  }
  return endpoint;
}

}  // namespace

absl::StatusOr<AwsProfile> ParseCredentialsFile(absl::string_view text, absl::string_view profile) {
  AwsProfile found;
  bool is_found = false;
  bool is_inside = false;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    // A value that goes on in the next line, indented, belongs to keys of other tools.
    const bool is_continued = !line.empty() && (line[0] == ' ' || line[0] == '\t');
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line[0] == '[') {
      const size_t end = line.find(']');
      if (end == absl::string_view::npos) return BadLine(number, "begins a profile without ']'");
      absl::string_view name = absl::StripAsciiWhitespace(line.substr(1, end - 1));
      is_inside = name == profile;
      is_found = is_found || is_inside;
      continue;
    }
    const size_t equals = line.find('=');
    if (equals == absl::string_view::npos) {
      if (is_continued) continue;
      return BadLine(number, "is neither [profile] nor key = value");
    }
    if (!is_inside) continue;
    std::string* field =
        FieldOf(absl::AsciiStrToLower(absl::StripAsciiWhitespace(line.substr(0, equals))), found);
    if (field != nullptr) {
      *field = std::string(absl::StripAsciiWhitespace(line.substr(equals + 1)));
    }
  }
  if (!is_found) return absl::NotFoundError(absl::StrCat("there is no profile [", profile, "]"));
  return found;
}

std::string ProcessEnvironment(const char* name) {
  const char* value = ::getenv(name);
  return value == nullptr ? "" : value;
}

absl::StatusOr<AwsSettings> LoadAwsSettings(const EnvironmentLookup& environment, FileSystem& fs) {
  MUSTER_ASSIGN_OR_RETURN(AwsProfile profile, LoadCredentials(environment, fs));
  AwsSettings settings;
  settings.credentials = CredentialsOf(profile);
  settings.reload = [environment, &fs]() -> absl::StatusOr<std::optional<AwsCredentials>> {
    MUSTER_ASSIGN_OR_RETURN(const AwsProfile now, LoadCredentials(environment, fs));
    return CredentialsOf(now);
  };
  for (std::string region :
       {environment("AWS_REGION"), environment("AWS_DEFAULT_REGION"), profile.region}) {
    if (region.empty()) continue;
    const bool is_name =
        region.size() <= 64 && std::all_of(region.begin(), region.end(), [](char c) {
          return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
        });
    if (!is_name) {
      return absl::InvalidArgumentError(
          "AWS_REGION, AWS_DEFAULT_REGION or the profile's region is no name of a region: write "
          "one as us-east-1");
    }
    settings.region = std::move(region);
    break;
  }
  for (const char* name : {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}) {
    const std::string endpoint = environment(name);
    if (endpoint.empty()) continue;
    MUSTER_ASSIGN_OR_RETURN(settings.endpoint, CheckedEndpoint(endpoint));
    break;
  }
  settings.ca_bundle = environment("AWS_CA_BUNDLE");
  return settings;
}

}  // namespace muster
