// Notices of AWS: spot/instance-action of the instance metadata service, version 2 (IMDSv2).
//
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
#pragma once

#include <memory>
#include <string>

#include "worker/agent/preemption/metadata_client.h"
#include "worker/agent/preemption/notice_source.h"

namespace muster::worker {

class AwsNotice final : public NoticeSource {
 public:
  // `clock` outlives it.
  AwsNotice(std::unique_ptr<MetadataClient> client, Clock& clock);

  // A token that the service refuses is renewed once.
  absl::StatusOr<std::optional<MachineNotice>> Ask() override;
  // AWS waits for no word.
  absl::Status Approve(const std::string&) override { return absl::OkStatus(); }

 private:
  absl::Status RenewToken();

  const std::unique_ptr<MetadataClient> client_;
  Clock& clock_;
  std::string token_;        // a secret; empty: none yet
  absl::Duration renew_at_;  // since boot
};

}  // namespace muster::worker
