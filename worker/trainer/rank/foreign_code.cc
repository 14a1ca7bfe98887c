#include "worker/trainer/rank/foreign_code.h"

#include "absl/strings/str_cat.h"

namespace muster::worker {
namespace {

const char* CodeOf(const trainer_spec::Model& model) {
  if (model.plugin.has_value()) return "plugin";
  if (model.torchscript.has_value()) return "torchscript";
  return nullptr;
}

}  // namespace

std::string ForeignCodeIn(const trainer_spec::JobSpec& spec) {
  if (const char* code = CodeOf(spec.train.model)) return absl::StrCat("train.model.", code);
  const char* code = CodeOf(spec.train.distill.model);
  return code == nullptr ? "" : absl::StrCat("train.distill.model.", code);
}

absl::Status MayRunForeignCode(const trainer_spec::JobSpec& spec, bool allowed,
                               absl::string_view way_out) {
  const std::string field = ForeignCodeIn(spec);
  if (allowed || field.empty()) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      field, ": the file holds code that may do whatever this program may: ", way_out));
}

}  // namespace muster::worker
