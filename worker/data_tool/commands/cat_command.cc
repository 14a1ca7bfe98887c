// `muster-data cat`: a sample's bytes as they are stored.
#include <memory>

#include "common/base/status_macros.h"
#include "worker/data_tool/commands/tool_commands.h"

namespace muster::worker {
namespace {

struct CatFlags {
  std::string path, sample, split = "train";
};

absl::StatusOr<int> RunCat(const CatFlags& flags, DataTool& tool) {
  MUSTER_ASSIGN_OR_RETURN(const DataIndexes indexes, OpenIndexes(tool, flags.path));
  MUSTER_ASSIGN_OR_RETURN(const Split split, SplitOfName(flags.split));
  const SampleIndex& index = IndexOf(indexes, split);
  MUSTER_ASSIGN_OR_RETURN(const uint64_t id, FindSample(index, flags.sample));
  MUSTER_ASSIGN_OR_RETURN(const StoredPlace place, PlaceOfSample(index, id));
  std::string bytes;
  MUSTER_RETURN_IF_ERROR(ReadStored(tool.data, place, bytes));
  tool.out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return kSound;
}

}  // namespace

void AddCat(CLI::App& app, DataTool& tool) {
  CLI::App* command = app.add_subcommand("cat", "write a sample's bytes to standard output");
  const auto flags = std::make_shared<CatFlags>();
  AddPath(*command, tool, flags->path);
  command->add_option("SAMPLE", flags->sample, "its key, or its number")->required();
  AddSplitName(*command, flags->split);
  command->callback([&tool, flags] { tool.run = [&tool, flags] { return RunCat(*flags, tool); }; });
}

}  // namespace muster::worker
