#include "worker/agent/preemption/metadata_client.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::worker {
namespace {

// The first connection of a machine that has just booted may take a moment.
constexpr absl::Duration kConnectTimeout = absl::Seconds(2);

HttpClientOptions ClientOptions() {
  HttpClientOptions options;
  options.connect_timeout = kConnectTimeout;
  // A question that waits for a change is silent until there is one: the deadline alone ends it.
  options.low_speed_bytes_per_second = 0;
  options.use_proxy = false;
  return options;
}

}  // namespace

MetadataClient::MetadataClient(absl::string_view base, const HttpStop& stop)
    : base_(base), stop_(stop), http_(ClientOptions()) {}

absl::StatusOr<HttpResponse> MetadataClient::Ask(const MetadataQuestion& question) {
  HttpRequest request;
  request.method = question.method;
  request.url = absl::StrCat(base_, question.target);
  request.headers = question.headers;
  request.body = question.body;
  request.max_body_bytes = kMaxMetadataBytes;
  request.deadline = question.deadline;
  request.stop = &stop_;
  absl::StatusOr<HttpResponse> answer = http_.Perform(request);
  if (answer.ok() && answer->is_cut_off) {
    return absl::OutOfRangeError(
        absl::StrCat("an answer of more than ", kMaxMetadataBytes, " bytes"));
  }
  return answer;
}

absl::Status StatusOfAnswer(absl::string_view what, const HttpResponse& answer) {
  const std::string text = absl::StrCat(what, ": HTTP ", answer.code);
  if (answer.code == 401 || answer.code == 403) return absl::UnauthenticatedError(text);
  return absl::UnavailableError(text);
}

}  // namespace muster::worker
