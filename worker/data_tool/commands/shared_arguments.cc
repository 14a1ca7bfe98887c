#include "worker/data_tool/base/interruption.h"
#include "worker/data_tool/base/parallel_work.h"
#include "worker/data_tool/commands/tool_commands.h"

namespace muster::worker {
namespace {

constexpr int kMostToolThreads = 1024;
constexpr uint64_t kMostSpecBytes = 16u << 20;

}  // namespace

void AddPath(CLI::App& command, DataTool& tool, std::string& path) {
  // What goes wrong is met again where the path is read.
  const auto keep_query = [&tool](const std::string& given) {
    return tool.data.KeepQuery(given).value_or(given);
  };
  command.add_option("PATH", path, "a folder, a file or a pattern such as train-*.tar")
      ->required()
      ->transform(keep_query);
}

void AddSplitName(CLI::App& command, std::string& split) {
  command.add_option("--split", split, "train (default), validation or test")
      ->check(CLI::IsMember({"train", "validation", "test"}));
}

void AddThreads(CLI::App& command, int& threads) {
  command.add_option("--threads", threads, "default: as many as there are cores")
      ->check(CLI::Range(1, kMostToolThreads));
}

int ThreadsOr(int threads) { return threads > 0 ? threads : AvailableCores(); }

absl::StatusOr<std::string> ReadSpec(const std::string& job, DataTool& tool) {
  if (job != "-") return tool.local.ReadFile(job, kMostSpecBytes);
  std::string text(kMostSpecBytes + 1, '\0');
  tool.in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(tool.in.gcount()));
  if (text.size() > kMostSpecBytes)
    return absl::InvalidArgumentError("the spec on standard input is too long to be one");
  return text;
}

absl::StatusOr<DataIndexes> OpenIndexes(DataTool& tool, const std::string& path, bool anew) {
  ProgressLine progress("index", 0);
  IndexOptions options;
  options.path = path;
  options.anew = anew;
  options.progress = [&](uint64_t samples) { progress.SetDone(samples); };
  options.goes_on = [] { return !Interrupted(); };
  return OpenOrMakeIndexes(tool.data, tool.local, options);
}

}  // namespace muster::worker
