// Notices of GCP: instance/preempted of the metadata server, which tells a change the moment that
// it happens, and instance/maintenance-event.
//
// https://cloud.google.com/compute/docs/instances/create-use-spot#detect-preemption
#pragma once

#include <memory>
#include <string>

#include "worker/agent/preemption/metadata_client.h"
#include "worker/agent/preemption/notice_source.h"

namespace muster::worker {

class GcpNotice final : public NoticeSource {
 public:
  // `has_gpus`: the machine has, by which GCP tells earlier of maintenance.
  GcpNotice(std::unique_ptr<MetadataClient> client, bool has_gpus);

  // After the first time it waits for a change, some seconds at most.
  absl::StatusOr<std::optional<MachineNotice>> Ask() override;
  // GCP waits for no word.
  absl::Status Approve(const std::string&) override { return absl::OkStatus(); }

 private:
  absl::StatusOr<HttpResponse> Get(const std::string& target, absl::Duration deadline);

  const std::unique_ptr<MetadataClient> client_;
  const bool has_gpus_;
  std::string etag_;  // of the last answer; empty: the next one should come at once
};

}  // namespace muster::worker
