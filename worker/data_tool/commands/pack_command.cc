// `muster-data pack`: shards that are quick to read, of data in any format.
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "nlohmann/json.hpp"
#include "worker/data_tool/commands/tool_commands.h"
#include "worker/data_tool/pack/packer.h"

namespace muster::worker {
namespace {

struct PackFlags {
  std::string path, out;
  PackSettings settings;
  bool as_they_are = false;
  int threads = 0;
};

uint64_t CountOf(const PackReport& report, Packing packing) {
  return report.packings[static_cast<size_t>(packing)];
}

void PrintPackJson(const PackReport& report, const PackFlags& flags, DataTool& tool) {
  const nlohmann::json json = {{"out", flags.out},
                               {"samples", report.samples},
                               {"shards", report.shards},
                               {"shards_written", report.shards_written},
                               {"bytes_read", report.bytes_read},
                               {"bytes_written", report.bytes_written},
                               {"repacked", CountOf(report, Packing::kRepacked)},
                               {"shrunk", CountOf(report, Packing::kShrunk)},
                               {"kept", CountOf(report, Packing::kKept)},
                               {"not_repacked", CountOf(report, Packing::kNotRepacked)},
                               {"changed_keys", report.changed_keys}};
  tool.out << json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

void PrintPackText(const PackReport& report, const PackFlags& flags, DataTool& tool) {
  tool.out << flags.out << " holds " << WithCommas(report.samples) << " samples in "
           << WithCommas(report.shards) << " shards";
  if (report.shards_written < report.shards)
    tool.out << "; " << WithCommas(report.shards - report.shards_written) << " were there before";
  tool.out << "\n";
  if (report.shards_written == 0) return;
  tool.out << "written: " << HumanBytes(static_cast<double>(report.bytes_written)) << " of "
           << HumanBytes(static_cast<double>(report.bytes_read));
  const auto tell = [&](Packing packing, const char* what) {
    if (const uint64_t count = CountOf(report, packing); count > 0)
      tool.out << "; " << WithCommas(count) << " " << what;
  };
  tell(Packing::kRepacked, "JPEGs repacked without loss");
  tell(Packing::kShrunk, "shrunk");
  tell(Packing::kKept, "kept as they were");
  tell(Packing::kNotRepacked, "damaged, kept too (`muster data verify` lists them)");
  tool.out << "\n";
  if (report.changed_keys > 0)
    tool.out << WithCommas(report.changed_keys) << " keys have a '-' for a dot\n";
}

absl::StatusOr<int> RunPack(const PackFlags& flags, DataTool& tool) {
  PackRequest request;
  request.path = flags.path;
  request.out = flags.out;
  request.settings = flags.settings;
  request.settings.repack = !flags.as_they_are;
  request.threads = ThreadsOr(flags.threads);
  std::optional<ProgressLine> progress;
  progress.emplace("index", 0);
  request.index_progress = [&](uint64_t samples) { progress->SetDone(samples); };
  request.begin = [&](uint64_t samples) { progress.emplace("pack", samples); };
  request.progress = [&] { progress->Add(); };
  const absl::StatusOr<PackReport> report = PackData(tool.data, tool.local, request);
  progress.reset();
  if (absl::IsCancelled(report.status())) {
    return absl::CancelledError(
        "interrupted; what is packed stays, and the same command goes on from there");
  }
  MUSTER_RETURN_IF_ERROR(report.status());
  if (tool.json) {
    PrintPackJson(*report, flags, tool);
  } else {
    PrintPackText(*report, flags, tool);
  }
  return kSound;
}

}  // namespace

void AddPack(CLI::App& app, DataTool& tool) {
  CLI::App* command =
      app.add_subcommand("pack", "write shards that are quick to read, of data in any format");
  const auto flags = std::make_shared<PackFlags>();
  AddPath(*command, tool, flags->path);
  command->add_option("OUT", flags->out, "the folder of the shards: a new one, or one to go on")
      ->required();
  command
      ->add_option("--shard-mb", flags->settings.shard_mib,
                   "MiB of samples, as they are now, in a shard (256)")
      ->check(CLI::Range(1, 1 << 20));
  command
      ->add_option("--resize", flags->settings.resize,
                   "shrink pictures whose shorter side is longer than so many pixels")
      ->check(CLI::Range(8, 65'535));
  command->add_flag("--no-repack", flags->as_they_are, "leave JPEGs as they are");
  command
      ->add_option("--validation", flags->settings.validation,
                   "hold out this share of each class, where the data name no sets")
      ->check(CLI::Range(0.0, 0.9));
  command->add_flag("--numbered", flags->settings.numbered,
                    "Parquet: keys are numbers of rows, not names of pictures");
  AddThreads(*command, flags->threads);
  command->callback(
      [&tool, flags] { tool.run = [&tool, flags] { return RunPack(*flags, tool); }; });
}

}  // namespace muster::worker
