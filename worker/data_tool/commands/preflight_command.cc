// `muster-data preflight`: whether a job will find its data on this machine, in one line of JSON.
#include <sys/resource.h>

#include <memory>

#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "worker/data/base/stopwatch.h"
#include "worker/data_tool/check/preflight.h"
#include "worker/data_tool/commands/tool_commands.h"

namespace muster::worker {
namespace {

// Ranks that train on this machine go first.
constexpr int kNiceness = 10;

nlohmann::json ReportJson(const PreflightReport& report) {
  nlohmann::json samples = nlohmann::json::object();
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    const uint64_t count = report.samples[static_cast<size_t>(split)];
    if (count > 0) samples[SplitName(split)] = count;
  }
  return {{"ok", true},
          {"fingerprint", report.fingerprint},
          {"samples", samples},
          {"tried", report.tried},
          {"broken", report.broken}};
}

absl::StatusOr<int> RunPreflight(const std::string& job, DataTool& tool) {
  ::setpriority(PRIO_PROCESS, 0, kNiceness);
  const Stopwatch watch;
  MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadSpec(job, tool));
  MUSTER_ASSIGN_OR_RETURN(const trainer_spec::JobSpec spec, trainer_spec::DecodeJobSpec(text));
  AnyFileSystem& data = PatientDataFileSystem();
  absl::StatusOr<PreflightReport> report = absl::InternalError("not looked at");
  {
    ProgressLine progress("index", 0);
    report = Preflight(data, tool.local, spec,
                       [&progress](uint64_t samples) { progress.SetDone(samples); });
  }
  if (absl::IsCancelled(report.status()) || absl::IsUnimplemented(report.status()))
    return report.status();
  nlohmann::json json = report.ok()
                            ? ReportJson(*report)
                            : nlohmann::json{{"ok", false},
                                             {"fault", PreflightFault(data, spec, report.status())},
                                             {"error", report.status().message()}};
  json["seconds"] = watch.seconds();
  tool.out << json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  return report.ok() ? kSound : kFaulty;
}

}  // namespace

void AddPreflight(CLI::App& app, DataTool& tool) {
  CLI::App* command = app.add_subcommand(
      "preflight", "whether a job will find its data on this machine, as one line of JSON");
  const auto job = std::make_shared<std::string>();
  command->add_option("-f,--job", *job, "a resolved spec (JSON); - for standard input")->required();
  command->callback([&tool, job] { tool.run = [&tool, job] { return RunPreflight(*job, tool); }; });
}

}  // namespace muster::worker
