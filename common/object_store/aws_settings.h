// Who asks S3, and where it is: from the environment and the shared credentials file, as the tools
// of AWS read them.
//
// AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN come first; else the profile
// AWS_PROFILE (default: "default") of AWS_SHARED_CREDENTIALS_FILE (default: ~/.aws/credentials);
// else requests are not signed. AWS_REGION, AWS_DEFAULT_REGION, the profile's region, us-east-1.
// AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL: another server that speaks S3. AWS_CA_BUNDLE: whom TLS
// trusts. Roles of machines and pods (IMDS, IRSA) and ~/.aws/config are not read.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/fs/file_system.h"
#include "common/object_store/sigv4.h"

namespace muster {

struct AwsSettings {
  std::optional<AwsCredentials> credentials;  // nothing: anonymous
  std::string region = "us-east-1";
  // "https://host:port" of a server that has its buckets in the path; empty: AWS's own.
  std::string endpoint;
  std::string ca_bundle;  // a file; empty: the system's
  // The credentials as they are told now: those of STS end after hours, and others are written to
  // the file. May be empty.
  std::function<absl::StatusOr<std::optional<AwsCredentials>>()> reload;
};

// What a profile of a credentials file says; an empty field: nothing.
struct AwsProfile {
  AwsCredentials credentials;
  std::string region;
};

// Sections in brackets, `key = value` lines, comments with '#' or ';'. NOT_FOUND without such a
// profile; INVALID_ARGUMENT, with the line's number and never its text, for what is no such file.
// Pure.
absl::StatusOr<AwsProfile> ParseCredentialsFile(absl::string_view text, absl::string_view profile);

// A variable of the environment, or "".
using EnvironmentLookup = std::function<std::string(const char* name)>;
std::string ProcessEnvironment(const char* name);

// INVALID_ARGUMENT for half a pair of keys or an endpoint that is no URL, NOT_FOUND for a profile
// or a file that is named and not there. No error holds a secret. `fs` outlives the settings'
// reload.
absl::StatusOr<AwsSettings> LoadAwsSettings(const EnvironmentLookup& environment, FileSystem& fs);

}  // namespace muster
