#include "common/object_store/remote_caller.h"

#include <sys/random.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "common/base/log.h"
#include "common/base/rng.h"
#include "common/base/units.h"
#include "common/object_store/http_headers.h"
#include "common/object_store/s3_xml.h"
#include "common/os/sha256.h"

namespace muster {
namespace {

constexpr size_t kMaxServerWords = 200;
constexpr int kLoggedAttempt = 3;

RemoteOptions Completed(RemoteOptions options, const AwsSettings& settings) {
  if (options.http.ca_bundle.empty()) options.http.ca_bundle = settings.ca_bundle;
  if (options.jitter_seed == 0) {
    // Fewer than 256 bytes are never cut short once the pool is ready.
    (void)!::getrandom(&options.jitter_seed, sizeof options.jitter_seed, 0);
  }
  return options;
}

// A bucket that can stand in a host's name under a wildcard's certificate.
bool IsHostLabel(absl::string_view bucket) {
  return bucket.size() <= 63 && std::all_of(bucket.begin(), bucket.end(), [](char c) {
           return absl::ascii_islower(static_cast<unsigned char>(c)) ||
                  absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '-';
         });
}

// The server's words, fit for one line: no control characters, nothing that repeats the query.
std::string Quoted(absl::string_view words, absl::string_view query) {
  std::string text(words.substr(0, 4 * kMaxServerWords));
  if (!query.empty()) text = absl::StrReplaceAll(text, {{query, "..."}});
  for (char& c : text) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) c = ' ';
  }
  absl::RemoveExtraAsciiWhitespace(&text);
  if (text.size() > kMaxServerWords) text = text.substr(0, kMaxServerWords) + "...";
  return text;
}

// What curl sends as Host: without the port that its scheme has anyway.
std::string HostHeader(absl::string_view scheme, absl::string_view authority) {
  if (scheme == "https://") absl::ConsumeSuffix(&authority, ":443");
  if (scheme == "http://") absl::ConsumeSuffix(&authority, ":80");
  return std::string(authority);
}

bool IsRefusal(int code) { return code == 400 || code == 401 || code == 403; }

}  // namespace

RemoteCaller::RemoteCaller(AwsSettings settings, RemoteOptions options)
    : settings_(std::move(settings)),
      options_(Completed(std::move(options), settings_)),
      clock_(options_.clock == nullptr ? real_clock_ : *options_.clock),
      http_(options_.http),
      credentials_(settings_.credentials) {}

std::optional<AwsCredentials> RemoteCaller::Credentials() const {
  MutexLock lock(mutex_);
  return credentials_;
}

bool RemoteCaller::RenewCredentials(const std::optional<AwsCredentials>& refused) {
  // Another thread may have met it before.
  if (Credentials() != refused) return true;
  if (!settings_.reload) return false;
  absl::StatusOr<std::optional<AwsCredentials>> now = settings_.reload();
  if (!now.ok() || *now == refused) return false;
  Log(LogLevel::kInfo, "s3_credentials_renewed", {});
  MutexLock lock(mutex_);
  credentials_ = *std::move(now);
  return true;
}

RemoteCaller::Target RemoteCaller::TargetOf(const RemoteCall& call) const {
  Target target;
  if (!call.path.is_s3) {
    target.url = call.path.url;
    target.query = std::string(QueryOf(call.path.url));
    return target;
  }
  std::string base = settings_.endpoint;
  const std::string& bucket = call.path.bucket;
  bool bucket_in_path = true;
  if (base.empty()) {
    bucket_in_path = !IsHostLabel(bucket);
    base = absl::StrCat("https://", bucket_in_path ? "" : absl::StrCat(bucket, "."), "s3.",
                        settings_.region, ".amazonaws.com",
                        absl::StartsWith(settings_.region, "cn-") ? ".cn" : "");
  }
  const size_t authority = base.find("://") + 3;
  const size_t path = std::min(base.find('/', authority), base.size());
  target.host = HostHeader(base.substr(0, authority), base.substr(authority, path - authority));
  target.path = absl::StrCat(base.substr(path), bucket_in_path ? absl::StrCat("/", bucket) : "",
                             "/", PercentEncode(call.path.key, true));
  target.query = EncodeQuery(call.query);
  target.url = absl::StrCat(base.substr(0, path), target.path, target.query.empty() ? "" : "?",
                            target.query);
  return target;
}

HttpRequest RemoteCaller::RequestOf(const RemoteCall& call,
                                    const std::optional<AwsCredentials>& credentials) {
  const Target target = TargetOf(call);
  HttpRequest request;
  request.method = call.method;
  request.url = target.url;
  request.headers = call.headers;
  request.body = call.body;
  request.buffer = call.buffer;
  request.buffer_bytes = call.buffer_bytes;
  request.max_body_bytes = call.max_body_bytes;
  request.worth_keeping_bytes = call.worth_keeping_bytes;
  request.follow_redirects = !call.path.is_s3;
  if (!call.path.is_s3 || !credentials.has_value()) return request;

  const absl::Time now = clock_.Now();
  RequestToSign to_sign{call.method, target.path, target.query, {}, Sha256Hex(call.body)};
  request.headers.emplace_back("x-amz-date", AmzDate(now));
  request.headers.emplace_back("x-amz-content-sha256", to_sign.payload_sha256);
  if (!credentials->session_token.empty()) {
    request.headers.emplace_back("x-amz-security-token", credentials->session_token);
  }
  to_sign.headers = request.headers;
  to_sign.headers.emplace_back("host", target.host);
  request.headers.emplace_back("Authorization",
                               SigV4Authorization(to_sign, *credentials, settings_.region, now));
  return request;
}

absl::Status RemoteCaller::Error(const RemoteCall& call, absl::StatusCode code,
                                 absl::string_view what) const {
  return absl::Status(code,
                      absl::StrCat(call.method, " ", UrlForPeople(TargetOf(call).url), ": ", what));
}

absl::Status RemoteCaller::ErrorOfAnswer(const RemoteCall& call,
                                         const HttpResponse& response) const {
  const S3Error error = call.path.is_s3 ? ParseS3Error(response.body) : S3Error();
  std::string words = error.code;
  if (!error.message.empty()) absl::StrAppend(&words, ": ", error.message);
  if (words.empty()) words = response.body;
  words = Quoted(words, TargetOf(call).query);
  std::string region = error.region;
  if (region.empty()) region = std::string(response.header("x-amz-bucket-region"));
  const bool is_elsewhere = !region.empty() && region != settings_.region;
  return Error(call, CodeOfHttp(response.code),
               absl::StrCat("HTTP ", response.code, words.empty() ? "" : " ", words, "; ",
                            is_elsewhere ? absl::StrCat("the bucket is in ", Quoted(region, ""),
                                                        ", so set AWS_REGION to that")
                                         : WayOut(response.code, error.code,
                                                  call.path.is_s3 && Credentials().has_value())));
}

absl::Status RemoteCaller::Attempt(const RemoteCall& call, absl::Duration deadline, bool& may_pass,
                                   absl::Duration& asked_for, HttpResponse& response) {
  const std::optional<AwsCredentials> credentials = Credentials();
  HttpRequest request = RequestOf(call, credentials);
  request.deadline = deadline;
  request.stop = &stop_;
  absl::StatusOr<HttpResponse> answer = http_.Perform(request);
  if (!answer.ok()) {
    may_pass = MayPass(answer.status());
    return Error(call, answer.status().code(), Quoted(answer.status().message(), ""));
  }
  response = *std::move(answer);
  has_answered_ = true;
  const bool is_expected =
      response.is_success() ||
      std::find(call.expected.begin(), call.expected.end(), response.code) != call.expected.end();
  if (!is_expected) {
    // Keys that have ended are refused with 400 or 403, and HEAD is told no reason.
    may_pass = MayPass(response.code) ||
               (call.path.is_s3 && IsRefusal(response.code) && RenewCredentials(credentials));
    if (const auto wanted = ParseRetryAfter(response.header("retry-after"))) asked_for = *wanted;
    return ErrorOfAnswer(call, response);
  }
  if (!call.check) return absl::OkStatus();
  const absl::Status checked = call.check(response);
  may_pass = absl::IsUnavailable(checked);
  return checked.ok() ? checked : Error(call, checked.code(), checked.message());
}

absl::StatusOr<RemoteAnswer> RemoteCaller::Call(const RemoteCall& call) {
  const RetryPolicy& policy = options_.retry;
  const absl::Duration begin = clock_.SinceBoot();
  for (int attempt = 1;; ++attempt) {
    if (stop_.is_stopped()) {
      return Error(call, absl::StatusCode::kCancelled, "the program is leaving");
    }
    const absl::Duration left = begin + Deadline() - clock_.SinceBoot();
    RemoteAnswer answer;
    answer.attempts = attempt;
    bool may_pass = false;
    absl::Duration asked_for = absl::ZeroDuration();
    const absl::Status status = Attempt(call, std::min(policy.request_deadline, left), may_pass,
                                        asked_for, answer.response);
    if (status.ok()) {
      if (is_troubled_) NoteTrouble("");
      return answer;
    }
    if (!may_pass) return status;
    NoteTrouble(status.message());
    const absl::Duration delay =
        RetryDelay(policy, attempt, asked_for, DeriveSeed(options_.jitter_seed, delays_++));
    if (const absl::Duration most = Deadline(); clock_.SinceBoot() - begin + delay >= most) {
      const std::string patience = HumanDuration(most);
      return absl::DeadlineExceededError(
          absl::StrCat(status.message(), " (given up after ", attempt, " attempts: ",
                       most < policy.operation_deadline
                           ? absl::StrCat("nothing has answered for ", patience)
                           : absl::StrCat("the ", patience, " of one operation are over"),
                       ")"));
    }
    if (attempt == kLoggedAttempt) {
      Log(LogLevel::kWarning, "remote_call_repeated",
          {{"attempts", attempt}, {"error", status.message()}});
    }
    Sleep(delay);
  }
}

absl::Duration RemoteCaller::Deadline() const {
  const RetryPolicy& policy = options_.retry;
  return has_answered_ ? policy.operation_deadline
                       : std::min(policy.operation_deadline, policy.unanswered_deadline);
}

void RemoteCaller::Sleep(absl::Duration delay) {
  if (options_.sleep) return options_.sleep(delay);
  (void)stop_.Sleep(delay);  // who was stopped sees it next
}

std::string RemoteCaller::trouble() const {
  MutexLock lock(mutex_);
  return trouble_;
}

void RemoteCaller::NoteTrouble(absl::string_view trouble) {
  MutexLock lock(mutex_);
  trouble_ = std::string(trouble);
  is_troubled_ = !trouble.empty();
}

}  // namespace muster
