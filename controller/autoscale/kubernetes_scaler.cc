#include "controller/autoscale/kubernetes_scaler.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/object_store/retry_rules.h"

namespace muster::controller {
namespace {

constexpr uint64_t kMaxTokenBytes = 64 << 10;
constexpr uint64_t kMaxAnswerBytes = 1 << 20;
constexpr size_t kShownBytes = 200;
constexpr int kLeaves = -1000;
constexpr int kStays = 1000;
constexpr char kJson[] = "application/json";
constexpr char kMergePatch[] = "application/merge-patch+json";

HttpClientOptions ClientOptions(const KubernetesAccess& access) {
  HttpClientOptions options;
  options.connect_timeout = absl::Seconds(5);
  options.low_speed_bytes_per_second = 0;  // answers are small: the deadline alone counts
  options.ca_bundle = access.ca_file;
  options.use_proxy = false;  // the API server is the cluster's own
  return options;
}

// The Status object that the API server sends with an error: its message.
std::string SaidBy(const HttpResponse& response) {
  const nlohmann::json body = nlohmann::json::parse(response.body, nullptr, false);
  std::string said;
  if (body.is_object() && body.contains("message") && body["message"].is_string()) {
    said = body["message"].get<std::string>();
  }
  for (char& byte : said) {
    if (!absl::ascii_isprint(byte)) byte = '?';
  }
  if (said.size() > kShownBytes) said = absl::StrCat(said.substr(0, kShownBytes), "...");
  return said.empty() ? "" : absl::StrCat(": ", said);
}

const char* WayOutOf(int code) {
  switch (code) {
    case 401:
      return "; the token was refused: is it this cluster's?";
    case 403:
      return "; the service account needs get and update of this scale, and for a Deployment patch "
             "of pods";
    case 404:
      return "; is its name and namespace right in the autoscale file?";
    default:
      return "";
  }
}

}  // namespace

KubernetesScaler::KubernetesScaler(KubernetesTarget target, KubernetesAccess access, FileSystem& fs,
                                   absl::Duration deadline)
    : target_(std::move(target)),
      access_(std::move(access)),
      fs_(fs),
      deadline_(deadline),
      http_(ClientOptions(access_)) {}

std::string KubernetesScaler::ScalePath() const {
  return absl::StrCat(
      "/apis/apps/v1/namespaces/", target_.name_space,
      target_.kind == KubernetesTarget::Kind::kStatefulSet ? "/statefulsets/" : "/deployments/",
      target_.name, "/scale");
}

absl::StatusOr<HttpResponse> KubernetesScaler::Send(const std::string& method,
                                                    const std::string& path,
                                                    const std::string& type,
                                                    const std::string& body) {
  asked_to_wait_ = absl::ZeroDuration();
  MUSTER_ASSIGN_OR_RETURN(std::string token, fs_.ReadFile(access_.token_file, kMaxTokenBytes));
  const absl::string_view bare = absl::StripAsciiWhitespace(token);
  if (bare.empty() || !std::all_of(bare.begin(), bare.end(), [](char c) {
        return absl::ascii_isgraph(static_cast<unsigned char>(c));
      })) {
    return absl::FailedPreconditionError(absl::StrCat(access_.token_file, ": holds no token"));
  }
  HttpRequest request;
  request.method = method;
  request.url = absl::StrCat(access_.url, path);
  request.headers = {{"Authorization", absl::StrCat("Bearer ", bare)}, {"Accept", kJson}};
  if (!body.empty()) request.headers.emplace_back("Content-Type", type);
  request.body = body;
  request.max_body_bytes = kMaxAnswerBytes;
  request.deadline = deadline_;
  request.stop = &stop_;
  absl::StatusOr<HttpResponse> response = http_.Perform(request);
  if (!response.ok()) {
    // Whose certificate it is that nobody trusts: the client speaks of object stores there.
    const bool untrusted = absl::IsFailedPrecondition(response.status());
    return absl::Status(
        response.status().code(),
        absl::StrCat(method, " ", path, " of ", access_.url, ": ",
                     untrusted
                         ? absl::StrCat("its certificate is not of the CA in ", access_.ca_file)
                         : std::string(response.status().message())));
  }
  return response;
}

absl::Status KubernetesScaler::ErrorOf(const std::string& method, const std::string& path,
                                       const HttpResponse& response) {
  int64_t seconds = 0;
  if (absl::SimpleAtoi(response.header("retry-after"), &seconds) && seconds > 0) {
    asked_to_wait_ = std::min(absl::Seconds(seconds), kLongestWait);
  }
  return absl::Status(CodeOfHttp(response.code),
                      absl::StrCat(method, " ", path, ": HTTP ", response.code, SaidBy(response),
                                   WayOutOf(response.code)));
}

absl::StatusOr<KubernetesScaler::Scale> KubernetesScaler::Read() {
  const std::string path = ScalePath();
  MUSTER_ASSIGN_OR_RETURN(const HttpResponse response, Send("GET", path, "", ""));
  if (!response.is_success()) return ErrorOf("GET", path, response);
  const nlohmann::json body = nlohmann::json::parse(response.body, nullptr, false);
  Scale scale;
  const auto member = [](const nlohmann::json& object, const char* key) {
    return object.is_object() && object.contains(key) ? object[key] : nlohmann::json();
  };
  const nlohmann::json version = member(member(body, "metadata"), "resourceVersion");
  // A number of zero is left out.
  const nlohmann::json spec = member(body, "spec");
  const nlohmann::json replicas = spec.is_object() && !spec.contains("replicas")
                                      ? nlohmann::json(0u)
                                      : member(spec, "replicas");
  const bool is_number =
      replicas.is_number_integer() && replicas >= 0 && replicas <= std::numeric_limits<int>::max();
  if (response.is_cut_off || !version.is_string() || version.empty() || !is_number) {
    return absl::UnavailableError(
        absl::StrCat("GET ", path, ": the answer is no scale of Kubernetes"));
  }
  return Scale{version.get<std::string>(), replicas.get<uint32_t>()};
}

absl::Status KubernetesScaler::Write(const Scale& read, uint32_t replicas) {
  const std::string path = ScalePath();
  const nlohmann::json body = {{"apiVersion", "autoscaling/v1"},
                               {"kind", "Scale"},
                               {"metadata",
                                {{"name", target_.name},
                                 {"namespace", target_.name_space},
                                 {"resourceVersion", read.version}}},
                               {"spec", {{"replicas", replicas}}}};
  MUSTER_ASSIGN_OR_RETURN(const HttpResponse response, Send("PUT", path, kJson, body.dump()));
  if (response.code == 409) {
    return absl::AbortedError(absl::StrCat("PUT ", path, ": HTTP 409", SaidBy(response)));
  }
  return response.is_success() ? absl::OkStatus() : ErrorOf("PUT", path, response);
}

absl::Status KubernetesScaler::Mark(const std::string& pod, int cost) {
  const std::string path = absl::StrCat("/api/v1/namespaces/", target_.name_space, "/pods/", pod);
  const nlohmann::json body = {
      {"metadata",
       {{"annotations", {{"controller.kubernetes.io/pod-deletion-cost", absl::StrCat(cost)}}}}}};
  MUSTER_ASSIGN_OR_RETURN(const HttpResponse response,
                          Send("PATCH", path, kMergePatch, body.dump()));
  if (response.is_success()) return absl::OkStatus();
  // One that leaves may be gone already. One that stays is connected: it is no pod of that name.
  if (response.code == 404 && cost == kLeaves) return absl::OkStatus();
  if (response.code == 404) {
    return absl::FailedPreconditionError(absl::StrCat(
        "PATCH ", path, ": HTTP 404: worker ", pod,
        " has no pod of its name, so that Kubernetes cannot be told to keep it; have workers of a "
        "deployment take their pods' names (muster-worker --name), or use a StatefulSet"));
  }
  return ErrorOf("PATCH", path, response);
}

absl::StatusOr<std::optional<uint32_t>> KubernetesScaler::Asked() {
  MUSTER_ASSIGN_OR_RETURN(const Scale scale, Read());
  return scale.replicas;
}

absl::Status KubernetesScaler::ScaleTo(const PoolDecision& decision) {
  if (target_.kind == KubernetesTarget::Kind::kDeployment && decision.wanted < decision.asked) {
    for (const std::string& pod : decision.staying) MUSTER_RETURN_IF_ERROR(Mark(pod, kStays));
    for (const std::string& pod : decision.leaving) MUSTER_RETURN_IF_ERROR(Mark(pod, kLeaves));
  }
  absl::Status status;
  for (int conflict = 0; conflict < kMostConflicts; ++conflict) {
    MUSTER_ASSIGN_OR_RETURN(const Scale scale, Read());
    if (scale.replicas == decision.wanted) return absl::OkStatus();
    if (scale.replicas != decision.asked) {
      // Another number than the decision was made by: it is made anew at the next look.
      return absl::UnavailableError(absl::StrCat("the scale of ", target_.name,
                                                 " was changed from ", decision.asked, " to ",
                                                 scale.replicas, " by somebody else meanwhile"));
    }
    status = Write(scale, decision.wanted);
    if (!absl::IsAborted(status)) return status;
  }
  return absl::UnavailableError(absl::StrCat(status.message(), "; ", kMostConflicts,
                                             " times in a row, gives it up until the next look"));
}

}  // namespace muster::controller
