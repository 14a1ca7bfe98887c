// `muster-data stats`: what the pictures are like, and the mean and std that a job wants.
#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "nlohmann/json.hpp"
#include "worker/data_tool/base/tool_output.h"
#include "worker/data_tool/check/picture_statistics.h"
#include "worker/data_tool/commands/tool_commands.h"

namespace muster::worker {
namespace {

struct StatsFlags {
  std::string path, split = "train";
  uint64_t samples = 10'000;
  int threads = 0;
};

nlohmann::json SpreadJson(const Spread& spread) {
  return {{"min", spread.least}, {"median", spread.median}, {"max", spread.greatest}};
}

void PrintStatsJson(const PictureStatistics& found, const SampleIndex& index, DataTool& tool) {
  nlohmann::json classes = nlohmann::json::array();
  for (const ClassCount& count : found.classes)
    classes.push_back({{"class", count.label},
                       {"name", ClassText(index, count.label)},
                       {"samples", count.samples}});
  const nlohmann::json json = {{"samples", found.samples},
                               {"unreadable", found.unreadable},
                               {"classes", classes},
                               {"width", SpreadJson(found.widths)},
                               {"height", SpreadJson(found.heights)},
                               {"bytes", SpreadJson(found.bytes)},
                               {"kinds", found.kinds},
                               {"turned", found.turned},
                               {"decoded", found.decoded},
                               {"not_decoded", found.not_decoded},
                               {"mean", found.mean},
                               {"std", found.std}};
  tool.out << json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

std::string ClassesText(const PictureStatistics& found, const SampleIndex& index) {
  if (found.classes.empty()) return "none";
  const auto fewer = [](const ClassCount& a, const ClassCount& b) { return a.samples < b.samples; };
  const auto [least, most] = std::minmax_element(found.classes.begin(), found.classes.end(), fewer);
  return absl::StrCat(WithCommas(found.classes.size()), "; the largest ",
                      Printable(ClassText(index, most->label)), " with ", WithCommas(most->samples),
                      ", the smallest ", Printable(ClassText(index, least->label)), " with ",
                      WithCommas(least->samples));
}

std::string ListOfThree(const std::array<double, 3>& values) {
  return absl::StrFormat("[%.4f, %.4f, %.4f]", values[0], values[1], values[2]);
}

void PrintStatsTable(const PictureStatistics& found, const SampleIndex& index, DataTool& tool) {
  std::string kinds;
  for (const auto& [kind, count] : found.kinds)
    absl::StrAppend(&kinds, kinds.empty() ? "" : ", ", kind, " ", WithCommas(count));
  if (found.unreadable > 0)
    absl::StrAppend(&kinds, kinds.empty() ? "" : ", ", "unreadable ", WithCommas(found.unreadable));
  std::vector<std::pair<std::string, std::string>> facts = {{"samples", WithCommas(found.samples)},
                                                            {"classes", ClassesText(found, index)},
                                                            {"kinds", kinds}};
  if (found.turned > 0) facts.emplace_back("turned by EXIF", WithCommas(found.turned));
  tool.out << RenderFacts(facts) << "\n";
  TextTable table({"", ">min", ">median", ">max"});
  const auto add = [&](const char* what, const Spread& spread, const auto& text) {
    table.Add({what, text(spread.least), text(spread.median), text(spread.greatest)});
  };
  add("width", found.widths, WithCommas);
  add("height", found.heights, WithCommas);
  add("bytes", found.bytes, WithCommas);
  tool.out << table.Render() << "\n";
  if (found.decoded == 0) {
    tool.out << "no picture could be decoded\n";
    return;
  }
  tool.out << "# of " << WithCommas(found.decoded) << " pictures";
  if (found.not_decoded > 0) tool.out << "; " << WithCommas(found.not_decoded) << " broken";
  tool.out << "\ntrain:\n  data:\n    images:\n      mean: " << ListOfThree(found.mean)
           << "\n      std: " << ListOfThree(found.std) << "\n";
}

absl::StatusOr<int> RunStats(const StatsFlags& flags, DataTool& tool) {
  MUSTER_ASSIGN_OR_RETURN(const DataIndexes indexes, OpenIndexes(tool, flags.path));
  MUSTER_ASSIGN_OR_RETURN(const Split split, SplitOfName(flags.split));
  const SampleIndex& index = IndexOf(indexes, split);
  PictureStatistics found;
  {
    ProgressLine progress("stats", index.size() + std::min(flags.samples, index.size()));
    StatisticsOptions options;
    options.threads = ThreadsOr(flags.threads);
    options.decoded = flags.samples;
    options.progress = [&] { progress.Add(); };
    MUSTER_ASSIGN_OR_RETURN(found, GatherStatistics(tool.data, index, options));
  }
  if (tool.json) {
    PrintStatsJson(found, index, tool);
  } else {
    PrintStatsTable(found, index, tool);
  }
  return kSound;
}

}  // namespace

void AddStats(CLI::App& app, DataTool& tool) {
  CLI::App* command =
      app.add_subcommand("stats", "classes, sizes, kinds, and the mean and std of each channel");
  const auto flags = std::make_shared<StatsFlags>();
  AddPath(*command, tool, flags->path);
  AddSplitName(*command, flags->split);
  command->add_option("--samples", flags->samples,
                      "pictures to decode for mean and std (10000), always the same ones");
  AddThreads(*command, flags->threads);
  command->callback(
      [&tool, flags] { tool.run = [&tool, flags] { return RunStats(*flags, tool); }; });
}

}  // namespace muster::worker
