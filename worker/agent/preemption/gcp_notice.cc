#include "worker/agent/preemption/gcp_notice.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/agent/preemption/notice_answers.h"

namespace muster::worker {
namespace {

constexpr char kPreempted[] = "/computeMetadata/v1/instance/preempted";
constexpr char kMaintenance[] = "/computeMetadata/v1/instance/maintenance-event";
// Longer waits would be no quicker, and maintenance is looked at between them.
constexpr int kWaitSeconds = 5;
constexpr size_t kMaxEtagBytes = 128;

// As it may stand in a URL.
bool IsEtag(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxEtagBytes &&
         std::all_of(text.begin(), text.end(), absl::ascii_isalnum);
}

}  // namespace

GcpNotice::GcpNotice(std::unique_ptr<MetadataClient> client, bool has_gpus)
    : client_(std::move(client)), has_gpus_(has_gpus) {}

absl::StatusOr<HttpResponse> GcpNotice::Get(const std::string& target, absl::Duration deadline) {
  MetadataQuestion question;
  question.target = target;
  question.headers = {{"Metadata-Flavor", "Google"}};
  question.deadline = deadline;
  MUSTER_ASSIGN_OR_RETURN(HttpResponse answer, client_->Ask(question));
  if (answer.code == 200 && answer.header("metadata-flavor") != "Google") {
    return absl::FailedPreconditionError(
        "what answers is not GCP's metadata server: it does not say `Metadata-Flavor: Google`");
  }
  return answer;
}

absl::StatusOr<std::optional<MachineNotice>> GcpNotice::Ask() {
  std::string target = kPreempted;
  absl::Duration deadline = kMetadataDeadline;
  if (!etag_.empty()) {
    absl::StrAppend(&target, "?wait_for_change=true&timeout_sec=", kWaitSeconds,
                    "&last_etag=", etag_);
    deadline += absl::Seconds(kWaitSeconds);
  }
  // After a failure the next answer is not waited for.
  etag_.clear();
  MUSTER_ASSIGN_OR_RETURN(const HttpResponse preempted, Get(target, deadline));
  if (preempted.code != 200) return StatusOfAnswer("instance/preempted", preempted);
  MUSTER_ASSIGN_OR_RETURN(std::optional<MachineNotice> notice, ReadGcpPreempted(preempted.body));
  if (notice.has_value()) return notice;
  if (IsEtag(preempted.header("etag"))) etag_ = std::string(preempted.header("etag"));
  MUSTER_ASSIGN_OR_RETURN(const HttpResponse maintenance, Get(kMaintenance, kMetadataDeadline));
  if (maintenance.code == 404) return std::nullopt;
  if (maintenance.code != 200) return StatusOfAnswer("instance/maintenance-event", maintenance);
  return ReadGcpMaintenance(maintenance.body, has_gpus_);
}

}  // namespace muster::worker
