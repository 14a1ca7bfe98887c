// Notices of Azure: scheduled events of the instance metadata service. They name the machines that
// they are for, since those of an availability set or scale set see each other's.
//
// https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events
#pragma once

#include <memory>
#include <string>

#include "worker/agent/preemption/metadata_client.h"
#include "worker/agent/preemption/notice_source.h"

namespace muster::worker {

class AzureNotice final : public NoticeSource {
 public:
  // `clock` outlives it.
  AzureNotice(std::unique_ptr<MetadataClient> client, Clock& clock);

  // The first answer may take Azure two minutes, and is waited for.
  absl::StatusOr<std::optional<MachineNotice>> Ask() override;
  absl::Status Approve(const std::string& id) override;

 private:
  absl::Status LearnName();

  const std::unique_ptr<MetadataClient> client_;
  Clock& clock_;
  std::string name_;  // of this machine; empty: not known yet
  bool was_answered_ = false;
};

}  // namespace muster::worker
