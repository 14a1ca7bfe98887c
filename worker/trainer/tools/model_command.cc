#include "worker/trainer/tools/model_command.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "trainer_spec/job_spec.h"
#include "worker/train/step/torch_guard.h"
#include "worker/trainer/rank/compose.h"
#include "worker/trainer/rank/foreign_code.h"
#include "worker/trainer/tools/model_catalog.h"
#include "worker/trainer/tools/model_report.h"

namespace muster::worker {
namespace {

std::string Print(const ModelReport& report, ModelFormat format) {
  return format == ModelFormat::kJson ? ModelReportJson(report) + "\n" : ModelReportText(report);
}

// On the meta device tensors have shapes and no memory. Networks from files bring theirs with them.
absl::StatusOr<ModelReport> Describe(const std::string& name, const trainer_spec::JobSpec& spec,
                                     ModelContext context) {
  const bool from_file =
      spec.train.model.torchscript.has_value() || spec.train.model.plugin.has_value();
  context.device = from_file ? at::kCPU : at::kMeta;
  return TorchGuardOr([&]() -> absl::StatusOr<ModelReport> {
    MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, BuildModel(spec, context));
    MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<Optimizer> optimizer,
                            BuildOptimizer(spec.train.optimizer, *model));
    return DescribeModel(name, *model, *optimizer);
  });
}

absl::StatusOr<ModelReport> Describe(const CatalogEntry& entry) {
  trainer_spec::JobSpec spec{.train = {.model = entry.model}};
  spec.train.optimizer.name = trainer_spec::OptimizerName::kAdamw;
  ModelContext context;
  context.input_shape = entry.input_shape;
  context.classes = entry.classes;
  return Describe(entry.name, spec, context);
}

}  // namespace

absl::StatusOr<std::string> ListModels(ModelFormat format) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  std::string text =
      absl::StrFormat("%-16s  %13s  %-14s  %s\n", "MODEL", "PARAMETERS", "SAMPLE", "WHAT IT IS");
  for (const CatalogEntry& entry : ModelCatalog()) {
    MUSTER_ASSIGN_OR_RETURN(const ModelReport report, Describe(entry));
    const std::string shape = absl::StrCat("[", absl::StrJoin(entry.input_shape, ", "), "]");
    absl::StrAppendFormat(&text, "%-16s  %13s  %-14s  %s\n", entry.name,
                          CountText(report.parameters), shape, entry.summary);
    json.push_back({{"name", entry.name},
                    {"parameters", report.parameters},
                    {"sample_shape", entry.input_shape},
                    {"classes", entry.classes},
                    {"summary", entry.summary}});
  }
  return format == ModelFormat::kJson ? json.dump() + "\n" : text;
}

absl::StatusOr<std::string> ShowModel(const std::string& name, ModelFormat format) {
  const std::vector<CatalogEntry> catalog = ModelCatalog();
  const auto it = std::find_if(catalog.begin(), catalog.end(),
                               [&](const CatalogEntry& entry) { return entry.name == name; });
  if (it == catalog.end()) {
    return absl::NotFoundError(absl::StrCat(
        "no model is called '", name, "': choose one of ",
        absl::StrJoin(catalog, ", ",
                      [](std::string* out, const CatalogEntry& entry) { *out += entry.name; }),
        ", or -f with a job's spec"));
  }
  MUSTER_ASSIGN_OR_RETURN(const ModelReport report, Describe(*it));
  return Print(report, format);
}

absl::StatusOr<std::string> ShowModelOfSpec(const std::string& spec_json, bool allow_plugins,
                                            FileSystem& fs, ModelFormat format) {
  MUSTER_ASSIGN_OR_RETURN(const trainer_spec::JobSpec spec, trainer_spec::DecodeJobSpec(spec_json));
  MUSTER_RETURN_IF_ERROR(MayRunForeignCode(spec, allow_plugins, kSayAllowCommands));
  MUSTER_ASSIGN_OR_RETURN(const ModelContext context, SampleContext(spec, fs));
  MUSTER_ASSIGN_OR_RETURN(const ModelReport report, Describe(spec.name, spec, context));
  return Print(report, format);
}

}  // namespace muster::worker
