// `muster-data verify`: reads every sample, and lists those that are broken.
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "nlohmann/json.hpp"
#include "worker/data_tool/base/tool_output.h"
#include "worker/data_tool/check/verify_data.h"
#include "worker/data_tool/commands/tool_commands.h"

namespace muster::worker {
namespace {

struct VerifyFlags {
  std::string path;
  int threads = 0;
  bool headers = false;
};

void PrintVerifyJson(const VerifyReport& report, DataTool& tool) {
  nlohmann::json listed = nlohmann::json::array();
  for (const BrokenSample& sample : report.listed) {
    listed.push_back({{"split", SplitName(sample.split)},
                      {"key", sample.key},
                      {"number", sample.id},
                      {"file", sample.file},
                      {"offset", sample.offset},
                      {"reason", sample.reason}});
  }
  const nlohmann::json json = {{"samples", report.samples},
                               {"bytes", report.bytes},
                               {"files_checked", report.checked_files},
                               {"indexes_compared", report.compared_indexes},
                               {"broken", report.broken},
                               {"listed", listed}};
  tool.out << json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

void PrintVerifyTable(const VerifyReport& report, const VerifyFlags& flags, DataTool& tool) {
  TextTable table({"split", ">number", "key", "file", ">offset", "reason"});
  for (const BrokenSample& sample : report.listed) {
    const bool whole_file = sample.key.empty();
    table.Add({SplitName(sample.split), whole_file ? "-" : absl::StrCat(sample.id),
               whole_file ? "-" : Printable(sample.key), Printable(sample.file),
               whole_file ? "-" : absl::StrCat(sample.offset), Printable(sample.reason)});
  }
  if (!table.empty()) tool.out << table.Render();
  if (report.broken > report.listed.size())
    tool.out << "... and " << WithCommas(report.broken - report.listed.size()) << " more\n";
  tool.out << WithCommas(report.samples) << " samples of "
           << HumanBytes(static_cast<double>(report.bytes)) << ": "
           << (report.broken == 0 ? "all are sound"
                                  : absl::StrCat(WithCommas(report.broken), " broken"))
           << (flags.headers ? " (headers only)" : "");
  if (report.checked_files > 0)
    tool.out << "; checksums of " << WithCommas(report.checked_files) << " files compared";
  if (report.compared_indexes > 0)
    tool.out << "; indexes beside " << WithCommas(report.compared_indexes) << " shards compared";
  tool.out << "\n";
}

absl::StatusOr<int> RunVerify(const VerifyFlags& flags, DataTool& tool) {
  MUSTER_ASSIGN_OR_RETURN(const DataIndexes indexes, OpenIndexes(tool, flags.path));
  uint64_t samples = 0;
  for (const Split split : OwnSplits(indexes)) samples += IndexOf(indexes, split).size();
  VerifyReport report;
  {
    ProgressLine progress("verify", samples);
    VerifyOptions options;
    options.threads = ThreadsOr(flags.threads);
    options.headers_only = flags.headers;
    options.progress = [&] { progress.Add(); };
    MUSTER_ASSIGN_OR_RETURN(report, VerifyData(tool.data, indexes, options));
  }
  if (tool.json) {
    PrintVerifyJson(report, tool);
  } else {
    PrintVerifyTable(report, flags, tool);
  }
  return report.broken == 0 ? kSound : kFaulty;
}

}  // namespace

void AddVerify(CLI::App& app, DataTool& tool) {
  CLI::App* command =
      app.add_subcommand("verify", "read and decode every sample, and list what is broken");
  const auto flags = std::make_shared<VerifyFlags>();
  AddPath(*command, tool, flags->path);
  AddThreads(*command, flags->threads);
  command->add_flag("--headers", flags->headers, "look at headers only: quick, finds less");
  command->callback(
      [&tool, flags] { tool.run = [&tool, flags] { return RunVerify(*flags, tool); }; });
}

}  // namespace muster::worker
