// What a cloud's metadata service says of the machine, of any bytes: it is a notice with a time
// that the cloud may announce, or none, or refused.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "common/object_store/http_headers.h"
#include "worker/agent/preemption/notice_answers.h"

namespace {

using muster::worker::MachineNotice;

[[noreturn]] void BrokenNotice(const char* what) {
  ::fprintf(stderr, "BROKEN: %s\n", what);
  ::abort();
}

void CheckNotice(const MachineNotice& notice, absl::Duration most) {
  if (notice.left < absl::ZeroDuration() || notice.left > most) BrokenNotice("a time too far away");
  if (notice.message.empty()) BrokenNotice("a notice of nothing");
}

void ReadAzure(const std::string& body, absl::Time now) {
  const auto notice = muster::worker::ReadAzureEvents(body, "vm_1", now);
  if (!notice.ok() || !notice->has_value()) return;
  CheckNotice(**notice, muster::worker::kAzureMaintenanceNotice);
  if (!muster::IsPlainHeaderValue((*notice)->id)) BrokenNotice("an id that breaks a line of a log");
  if ((*notice)->awaits_approval && (*notice)->id.empty()) BrokenNotice("an approval of nothing");
  if (muster::worker::AzureApproval((*notice)->id).empty()) BrokenNotice("no approval");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const absl::Time now = muster::worker::TimeOfAnswer(bytes, absl::FromUnixSeconds(1'768'478'400));
  for (const std::string& body :
       {bytes, absl::StrCat("{\"action\":\"stop\",\"time\":\"", bytes, "\"}")}) {
    const auto action = muster::worker::ReadAwsAction(body, now);
    if (action.ok()) CheckNotice(*action, muster::worker::kAwsNotice);
  }
  const auto preempted = muster::worker::ReadGcpPreempted(bytes);
  if (preempted.ok() && preempted->has_value()) {
    CheckNotice(**preempted, muster::worker::kGcpNotice);
  }
  const auto maintenance = muster::worker::ReadGcpMaintenance(bytes, /*has_gpus=*/false);
  if (maintenance.has_value()) CheckNotice(*maintenance, muster::worker::kGcpMaintenanceNotice);
  ReadAzure(bytes, now);
  ReadAzure(absl::StrCat("{\"Events\":[", bytes, "]}"), now);
  ReadAzure(absl::StrCat("{\"Events\":[{\"EventType\":\"Preempt\",\"Resources\":[\"vm_1\"],", bytes,
                         "}]}"),
            now);
  return 0;
}
