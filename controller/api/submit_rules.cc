#include "controller/api/submit_rules.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/spec/spec_defaults.h"
#include "common/spec/spec_reader.h"
#include "common/spec/spec_text.h"
#include "common/spec/spec_validate.h"
#include "common/spec/spec_writer.h"
#include "controller/api/call.h"

namespace muster::controller {
namespace {

constexpr size_t kMaxSpecBytes = 64 << 10;
constexpr size_t kMaxKeyBytes = 128;
constexpr size_t kMaxOwnerBytes = 64;

bool IsPlain(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

JobSettings SettingsOf(const v1::JobSpec& spec) {
  JobSettings out;
  out.name = spec.name();
  out.project = spec.project();
  out.needs.min_ranks = spec.ranks().min();
  out.needs.max_ranks = spec.ranks().max();
  out.needs.slot_kind = spec.per_rank().gpus() > 0 ? SlotKind::kGpu : SlotKind::kCpu;
  out.needs.pool = spec.placement().pool();
  for (const auto& [key, value] : spec.placement().selector())
    out.needs.selector.emplace(key, value);
  out.needs.wait_for_capacity = spec.placement().wait_for_capacity();
  out.restart.max_restarts = spec.restart().max_restarts();
  out.restart.backoff = muster::FromProto(spec.restart().backoff());
  out.restart.max_backoff = muster::FromProto(spec.restart().max_backoff());
  out.restart.progress_timeout = muster::FromProto(spec.restart().progress_timeout());
  out.keep_last = spec.checkpoint().keep_last();
  absl::string_view root = spec.checkpoint().url();
  absl::ConsumePrefix(&root, "file://");
  while (root.size() > 1 && absl::ConsumeSuffix(&root, "/")) {
  }
  out.checkpoint_root = std::string(root);
  out.spec_json = SpecToJson(spec);
  return out;
}

}  // namespace

absl::StatusOr<CheckedSubmit> CheckSubmit(const v1::SubmitRequest& request,
                                          const std::string& checkpoint_root) {
  MUSTER_RETURN_IF_ERROR(CheckProtocolVersion(request.protocol_version(), "the client"));
  if (request.idempotency_key().size() > kMaxKeyBytes || !IsPlain(request.idempotency_key())) {
    return absl::InvalidArgumentError(absl::StrCat("idempotency_key: at most ", kMaxKeyBytes,
                                                   " printable ASCII characters without spaces"));
  }
  if (request.owner().size() > kMaxOwnerBytes || !IsPlain(request.owner())) {
    return absl::InvalidArgumentError(absl::StrCat("owner: at most ", kMaxOwnerBytes,
                                                   " printable ASCII characters without spaces"));
  }
  if (request.spec().ByteSizeLong() > kMaxSpecBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("spec: larger than ", kMaxSpecBytes / 1024, " KiB"));
  }
  CheckedSubmit out;
  out.resolved = request.spec();
  FillDefaults(out.resolved);
  if (out.resolved.checkpoint().url().empty()) {
    out.resolved.mutable_checkpoint()->set_url(checkpoint_root);
  }
  MUSTER_RETURN_IF_ERROR(FaultStatus("spec", ValidateSpec(out.resolved)));
  out.settings = SettingsOf(out.resolved);
  return out;
}

v1::JobSpec SpecOf(const JobSettings& settings) { return ReadSpec(settings.spec_json).spec; }

}  // namespace muster::controller
