#include "worker/agent/preemption/azure_notice.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "common/base/status_macros.h"
#include "common/object_store/http_headers.h"
#include "worker/agent/preemption/notice_answers.h"

namespace muster::worker {
namespace {

constexpr char kName[] = "/metadata/instance/compute/name?api-version=2021-02-01&format=text";
constexpr char kEvents[] = "/metadata/scheduledevents?api-version=2020-07-01";
// Azure turns scheduled events on for a machine when it first asks for them.
constexpr absl::Duration kFirstDeadline = absl::Seconds(150);

MetadataQuestion AzureQuestion(const char* target) {
  MetadataQuestion question;
  question.target = target;
  question.headers = {{"Metadata", "true"}};
  return question;
}

}  // namespace

AzureNotice::AzureNotice(std::unique_ptr<MetadataClient> client, Clock& clock)
    : client_(std::move(client)), clock_(clock) {}

absl::Status AzureNotice::LearnName() {
  MUSTER_ASSIGN_OR_RETURN(const HttpResponse answer, client_->Ask(AzureQuestion(kName)));
  if (answer.code != 200) return StatusOfAnswer("instance/compute/name", answer);
  const absl::string_view name = absl::StripAsciiWhitespace(answer.body);
  if (name.empty() || !IsPlainHeaderValue(name)) {
    return absl::InvalidArgumentError("instance/compute/name: not a name");
  }
  name_ = std::string(name);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<MachineNotice>> AzureNotice::Ask() {
  if (name_.empty()) MUSTER_RETURN_IF_ERROR(LearnName());
  MetadataQuestion question = AzureQuestion(kEvents);
  if (!was_answered_) question.deadline = kFirstDeadline;
  MUSTER_ASSIGN_OR_RETURN(const HttpResponse answer, client_->Ask(question));
  if (answer.code != 200) return StatusOfAnswer("scheduledevents", answer);
  was_answered_ = true;
  return ReadAzureEvents(answer.body, name_, TimeOfAnswer(answer.header("date"), clock_.Now()));
}

absl::Status AzureNotice::Approve(const std::string& id) {
  MetadataQuestion question = AzureQuestion(kEvents);
  question.method = "POST";
  question.headers.emplace_back("Content-Type", "application/json");
  question.body = AzureApproval(id);
  MUSTER_ASSIGN_OR_RETURN(const HttpResponse answer, client_->Ask(question));
  return answer.is_success() ? absl::OkStatus() : StatusOfAnswer("the approval", answer);
}

}  // namespace muster::worker
