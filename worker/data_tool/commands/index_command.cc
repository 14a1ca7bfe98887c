// `muster-data index`: which samples there are, and where that is written down.
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "nlohmann/json.hpp"
#include "worker/data_tool/base/tool_output.h"
#include "worker/data_tool/commands/tool_commands.h"

namespace muster::worker {
namespace {

struct IndexFlags {
  std::string path;
  bool anew = false;
};

void PrintIndexJson(const DataIndexes& indexes, const IndexFlags& flags, DataTool& tool) {
  nlohmann::json splits = nlohmann::json::object();
  for (const Split split : OwnSplits(indexes)) {
    const SampleIndex& index = IndexOf(indexes, split);
    splits[SplitName(split)] = {{"samples", index.size()},
                                {"bytes", index.sample_bytes()},
                                {"files", index.files()},
                                {"fingerprint", index.fingerprint()},
                                {"index", index.path()}};
  }
  const SampleIndex& train = IndexOf(indexes, Split::kTrain);
  const nlohmann::json json = {{"path", flags.path},
                               {"format", DataFormatName(indexes.format)},
                               {"splits", splits},
                               {"classes", train.greatest_label() + 1},
                               {"class_names", train.class_names()}};
  tool.out << json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

absl::StatusOr<int> RunIndex(const IndexFlags& flags, DataTool& tool) {
  MUSTER_ASSIGN_OR_RETURN(const DataIndexes indexes, OpenIndexes(tool, flags.path, flags.anew));
  if (tool.json) {
    PrintIndexJson(indexes, flags, tool);
    return kSound;
  }
  const SampleIndex& train = IndexOf(indexes, Split::kTrain);
  tool.out << flags.path << " is " << DataFormatName(indexes.format) << "\n";
  TextTable table({"split", ">samples", ">bytes", ">files", "index"});
  for (const Split split : OwnSplits(indexes)) {
    const SampleIndex& index = IndexOf(indexes, split);
    table.Add({SplitName(split), WithCommas(index.size()),
               HumanBytes(static_cast<double>(index.sample_bytes())), WithCommas(index.files()),
               index.path()});
  }
  tool.out << table.Render();
  if (OwnSplits(indexes).size() == 2) tool.out << "test is validation: the data name one of both\n";
  if (train.greatest_label() == kNoLabel) {
    tool.out << "some samples have no class\n";
  } else {
    tool.out << "classes 0 to " << train.greatest_label()
             << (train.class_names().empty() ? ", without names" : "") << "\n";
  }
  return kSound;
}

}  // namespace

void AddIndex(CLI::App& app, DataTool& tool) {
  CLI::App* command =
      app.add_subcommand("index", "find the samples, and write down where they lie");
  const auto flags = std::make_shared<IndexFlags>();
  AddPath(*command, flags->path);
  command->add_flag("--anew", flags->anew, "though there is an index: the data have changed");
  command->callback(
      [&tool, flags] { tool.run = [&tool, flags] { return RunIndex(*flags, tool); }; });
}

}  // namespace muster::worker
