// `muster-data index`: which samples there are, and where that is written down.
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/object_store/remote_path.h"
#include "nlohmann/json.hpp"
#include "worker/data/formats/shard_index.h"
#include "worker/data_tool/base/interruption.h"
#include "worker/data_tool/base/tool_output.h"
#include "worker/data_tool/commands/tool_commands.h"

namespace muster::worker {
namespace {

struct IndexFlags {
  std::string path;
  bool anew = false;
  bool beside = false;
};

// An index beside each shard, for whoever reads them from here or from where they are copied to.
absl::Status WriteShardIndexes(const IndexFlags& flags, DataTool& tool) {
  MUSTER_ASSIGN_OR_RETURN(const FoundData found, FindFormat(tool.data, flags.path));
  if (found.format != DataFormat::kWebDataset) {
    return absl::InvalidArgumentError(absl::StrCat(flags.path, " is ", DataFormatName(found.format),
                                                   ": --beside is for shards of WebDataset"));
  }
  std::vector<std::string> shards;
  for (const auto* files : {&found.train, &found.validation, &found.test, &found.unnamed})
    shards.insert(shards.end(), files->begin(), files->end());
  ProgressLine progress("index beside", shards.size());
  for (const std::string& shard : shards) {
    MUSTER_RETURN_IF_ERROR(CheckInterrupted());
    if (IsRemotePath(shard)) {
      return absl::FailedPreconditionError(
          absl::StrCat(UrlForPeople(shard),
                       " is far away: make the indexes where the shards are written, and copy "
                       "both"));
    }
    const std::optional<std::string> index = ShardIndexPath(shard);
    if (!index.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(shard, " has no name that ends in .tar, so its index would have none"));
    }
    MUSTER_ASSIGN_OR_RETURN(const std::string text, MakeShardIndex(tool.local, shard, {}));
    MUSTER_RETURN_IF_ERROR(WriteFileAtomically(tool.local, *index, text));
    progress.Add();
  }
  return absl::OkStatus();
}

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
  if (flags.beside) MUSTER_RETURN_IF_ERROR(WriteShardIndexes(flags, tool));
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
  AddPath(*command, tool, flags->path);
  command->add_flag("--anew", flags->anew, "though there is an index: the data have changed");
  command->add_flag("--beside", flags->beside,
                    "write an index beside each shard of WebDataset, too (train-0.idx)");
  command->callback(
      [&tool, flags] { tool.run = [&tool, flags] { return RunIndex(*flags, tool); }; });
}

}  // namespace muster::worker
