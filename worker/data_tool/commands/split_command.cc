// `muster-data split`: sets for training, validation and test of an image folder, as links.
#include <array>
#include <memory>

#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "worker/data_tool/base/tool_output.h"
#include "worker/data_tool/commands/tool_commands.h"
#include "worker/data_tool/pack/link_tree.h"

namespace muster::worker {
namespace {

absl::StatusOr<int> RunSplit(SplitRequest request, DataTool& tool) {
  ProgressLine progress("split", 0);
  request.index_progress = [&](uint64_t samples) { progress.SetDone(samples); };
  uint64_t links = 0;
  request.progress = [&] { progress.SetDone(++links); };
  std::array<uint64_t, 3> counts;
  MUSTER_ASSIGN_OR_RETURN(counts, SplitFolder(tool.data, tool.local, request));
  if (tool.json) {
    nlohmann::json json = {{"out", request.out}};
    for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest})
      json[SplitName(split)] = counts[static_cast<size_t>(split)];
    tool.out << json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    return kSound;
  }
  TextTable table({"split", ">pictures"});
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest})
    table.Add({SplitName(split), WithCommas(counts[static_cast<size_t>(split)])});
  tool.out << table.Render() << request.out << " holds links to " << request.path << "\n";
  return kSound;
}

}  // namespace

void AddSplit(CLI::App& app, DataTool& tool) {
  CLI::App* command = app.add_subcommand(
      "split", "hold out a share of each class of an image folder, as a tree of links");
  const auto request = std::make_shared<SplitRequest>();
  AddPath(*command, tool, request->path);
  command->add_option("OUT", request->out, "the tree to make")->required();
  command->add_option("--validation", request->validation, "share of each class, such as 0.1")
      ->required()
      ->check(CLI::Range(0.0, 0.9));
  command->add_option("--test", request->test, "likewise (0)")->check(CLI::Range(0.0, 0.9));
  command->add_option("--seed", request->seed, "another one chooses others (0)");
  command->callback([&tool, request] {
    if (request->validation + request->test >= 1)
      throw CLI::ValidationError("--validation and --test", "leave nothing to train on");
    tool.run = [&tool, request] { return RunSplit(*request, tool); };
  });
}

}  // namespace muster::worker
