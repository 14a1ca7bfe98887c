// `muster-data bench`: how fast this machine can feed a model, stage by stage.
#include <cmath>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "nlohmann/json.hpp"
#include "worker/data_tool/base/parallel_work.h"
#include "worker/data_tool/base/tool_output.h"
#include "worker/data_tool/check/feed_rate.h"
#include "worker/data_tool/commands/tool_commands.h"

namespace muster::worker {
namespace {

struct BenchFlags {
  std::string path;
  int64_t size = 224;
  int threads = 0;
  double seconds = 2;
  double needs = 0;
};

struct Measured {
  FeedStage stage = FeedStage::kRead;
  int threads = 1;
  FeedRate rate;
};

absl::StatusOr<std::vector<Measured>> Measure(const SampleIndex& index, const BenchFlags& flags,
                                              int threads, DataTool& tool) {
  std::vector<int> counts = {1};
  if (threads > 1) counts.push_back(threads);
  ProgressLine progress("bench", counts.size() * kFeedStages.size());
  // So that the first stage does not read from the disk what the others find in memory.
  FeedOptions warm{.threads = threads, .seconds = flags.seconds, .size = flags.size};
  MUSTER_RETURN_IF_ERROR(MeasureFeed(tool.data, index, FeedStage::kRead, warm).status());
  std::vector<Measured> all;
  for (const FeedStage stage : kFeedStages) {
    for (const int count : counts) {
      FeedOptions options = warm;
      options.threads = count;
      Measured measured{stage, count, {}};
      MUSTER_ASSIGN_OR_RETURN(measured.rate, MeasureFeed(tool.data, index, stage, options));
      all.push_back(measured);
      progress.Add();
    }
  }
  return all;
}

// Cores for `needs` samples a second, by what a core made when all of them worked.
uint64_t CoresFor(double needs, const Measured& last) {
  const double each = last.rate.samples_per_second / last.threads;
  return each > 0 ? static_cast<uint64_t>(std::ceil(needs / each)) : 0;
}

void PrintBench(const std::vector<Measured>& all, const BenchFlags& flags, DataTool& tool) {
  if (tool.json) {
    nlohmann::json stages = nlohmann::json::array();
    for (const Measured& measured : all) {
      stages.push_back({{"stage", FeedStageName(measured.stage)},
                        {"threads", measured.threads},
                        {"samples_per_second", measured.rate.samples_per_second},
                        {"bytes_per_second", measured.rate.bytes_per_second},
                        {"samples", measured.rate.samples},
                        {"broken", measured.rate.broken}});
    }
    nlohmann::json json = {{"size", flags.size}, {"stages", stages}};
    if (flags.needs > 0) json["cores_needed"] = CoresFor(flags.needs, all.back());
    tool.out << json.dump() << "\n";
    return;
  }
  TextTable table({"stage", ">threads", ">samples/s", ">each thread", ">read/s"});
  uint64_t broken = 0;
  for (const Measured& measured : all) {
    const FeedRate& rate = measured.rate;
    table.Add({FeedStageName(measured.stage), absl::StrCat(measured.threads),
               WithCommas(static_cast<uint64_t>(rate.samples_per_second)),
               WithCommas(static_cast<uint64_t>(rate.samples_per_second / measured.threads)),
               HumanBytes(rate.bytes_per_second)});
    broken += rate.broken;
  }
  tool.out << table.Render();
  if (broken > 0) tool.out << WithCommas(broken) << " samples were broken\n";
  if (flags.needs <= 0) return;
  const uint64_t cores = CoresFor(flags.needs, all.back());
  tool.out << absl::StrFormat("%g samples a second want %d %s like this one's", flags.needs, cores,
                              cores == 1 ? "core" : "cores")
           << "; it has " << AvailableCores() << "\n";
}

absl::StatusOr<int> RunBench(const BenchFlags& flags, DataTool& tool) {
  MUSTER_ASSIGN_OR_RETURN(const DataIndexes indexes, OpenIndexes(tool, flags.path));
  const SampleIndex& index = IndexOf(indexes, Split::kTrain);
  if (index.size() == 0) return absl::FailedPreconditionError("the training set has no samples");
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Measured> all,
                          Measure(index, flags, ThreadsOr(flags.threads), tool));
  PrintBench(all, flags, tool);
  return kSound;
}

}  // namespace

void AddBench(CLI::App& app, DataTool& tool) {
  CLI::App* command =
      app.add_subcommand("bench", "samples a second that this machine can feed, stage by stage");
  const auto flags = std::make_shared<BenchFlags>();
  AddPath(*command, tool, flags->path);
  command->add_option("--size", flags->size, "height and width of what is made (224)")
      ->check(CLI::Range(8, 1024));
  AddThreads(*command, flags->threads);
  command->add_option("--seconds", flags->seconds, "for each stage (2)")
      ->check(CLI::Range(0.01, 3600.0));
  command->add_option("--needs", flags->needs, "samples a second that a model takes")
      ->check(CLI::PositiveNumber);
  command->callback(
      [&tool, flags] { tool.run = [&tool, flags] { return RunBench(*flags, tool); }; });
}

}  // namespace muster::worker
