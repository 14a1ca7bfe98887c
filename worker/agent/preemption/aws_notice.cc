#include "worker/agent/preemption/aws_notice.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/object_store/http_headers.h"
#include "worker/agent/preemption/notice_answers.h"

namespace muster::worker {
namespace {

constexpr char kTokenTarget[] = "/latest/api/token";
constexpr char kActionTarget[] = "/latest/meta-data/spot/instance-action";
constexpr int kTokenSeconds = 21'600;  // the longest that there is

}  // namespace

AwsNotice::AwsNotice(std::unique_ptr<MetadataClient> client, Clock& clock)
    : client_(std::move(client)), clock_(clock) {}

absl::Status AwsNotice::RenewToken() {
  token_.clear();
  MetadataQuestion question;
  question.method = "PUT";
  question.target = kTokenTarget;
  question.headers = {{"X-aws-ec2-metadata-token-ttl-seconds", absl::StrCat(kTokenSeconds)}};
  const absl::Duration asked = clock_.SinceBoot();
  MUSTER_ASSIGN_OR_RETURN(const HttpResponse answer, client_->Ask(question));
  if (answer.code != 200) return StatusOfAnswer("api/token", answer);
  const absl::string_view token = absl::StripAsciiWhitespace(answer.body);
  if (token.empty() || !IsPlainHeaderValue(token)) {
    return absl::InvalidArgumentError("api/token: not a token");
  }
  token_ = std::string(token);
  renew_at_ = asked + absl::Seconds(kTokenSeconds) / 2;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<MachineNotice>> AwsNotice::Ask() {
  for (bool is_renewed = false;; is_renewed = true) {
    if (is_renewed || token_.empty() || clock_.SinceBoot() >= renew_at_) {
      MUSTER_RETURN_IF_ERROR(RenewToken());
    }
    MetadataQuestion question;
    question.target = kActionTarget;
    question.headers = {{"X-aws-ec2-metadata-token", token_}};
    MUSTER_ASSIGN_OR_RETURN(const HttpResponse answer, client_->Ask(question));
    if (answer.code == 401 && !is_renewed) continue;
    if (answer.code == 404) return std::nullopt;
    if (answer.code != 200) return StatusOfAnswer("instance-action", answer);
    return ReadAwsAction(answer.body, TimeOfAnswer(answer.header("date"), clock_.Now()));
  }
}

}  // namespace muster::worker
