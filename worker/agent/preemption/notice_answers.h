// What the answers of the clouds' metadata services mean. They come from a network, so anything may
// stand in them. Pure.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/agent/preemption/notice_source.h"

namespace muster::worker {

// The longest that each cloud announces ahead; a time further away is a wrong clock.
inline constexpr absl::Duration kAwsNotice = absl::Seconds(120);
inline constexpr absl::Duration kGcpNotice = absl::Seconds(30);
inline constexpr absl::Duration kGcpMaintenanceNotice = absl::Seconds(60);
// https://cloud.google.com/compute/docs/gpus/gpu-host-maintenance
inline constexpr absl::Duration kGcpGpuMaintenanceNotice = absl::Hours(1);
inline constexpr absl::Duration kAzureNotice = absl::Seconds(30);
inline constexpr absl::Duration kAzureMaintenanceNotice = absl::Minutes(15);

// The service's own time, from its answer's Date header; else `now`. What the machine's own clock
// says, which may be wrong, should not decide how long a save may take.
absl::Time TimeOfAnswer(absl::string_view date_header, absl::Time now);

// AWS's spot/instance-action: {"action": "terminate" | "stop" | "hibernate", "time": "..."}.
// A known action without a time that can be read is taken for one that was just announced.
// INVALID_ARGUMENT: no such answer.
absl::StatusOr<MachineNotice> ReadAwsAction(absl::string_view body, absl::Time now);

// GCP's instance/preempted: TRUE or FALSE.
absl::StatusOr<std::optional<MachineNotice>> ReadGcpPreempted(absl::string_view body);

// GCP's instance/maintenance-event. A machine that is moved alive stays; TERMINATE... ends it: one
// with GPUs an hour later. Words that are not known yet are no notice.
std::optional<MachineNotice> ReadGcpMaintenance(absl::string_view body, bool has_gpus);

// Azure's scheduledevents. Of those that end or restart a machine, and whose Resources name
// `machine`, the soonest. Only one that names no other machine awaits approval.
// INVALID_ARGUMENT: no such answer; one event in it that makes no sense is passed over.
absl::StatusOr<std::optional<MachineNotice>> ReadAzureEvents(absl::string_view body,
                                                             absl::string_view machine,
                                                             absl::Time now);

// The body of the POST that approves an Azure event.
std::string AzureApproval(const std::string& event_id);

}  // namespace muster::worker
