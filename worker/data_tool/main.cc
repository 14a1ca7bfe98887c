// muster-data: looks at data sets, checks them, packs them, and shows what training makes of them.
// People call it as `muster data`. Knows nothing of torch, gRPC or protobuf.
//
// Exit codes: 0 done; 1 something is wrong with the data, or the command failed; 2 bad usage; 130
// interrupted. Results go to stdout, progress and errors to stderr.
#include <signal.h>
#include <stdlib.h>

#include <iostream>
#include <string>

#include "CLI/CLI.hpp"
#include "common/base/code_version.h"
#include "common/base/log.h"
#include "common/base/version.h"
#include "common/fs/file_system.h"
#include "worker/data_tool/base/interruption.h"
#include "worker/data_tool/commands/tool_commands.h"

namespace muster::worker {
namespace {

constexpr int kBadUsage = 2;
constexpr int kWasInterrupted = 130;

void AddCommands(CLI::App& app, DataTool& tool) {
  app.set_version_flag("--version", VersionLine("muster-data"));
  app.require_subcommand(1);
  app.fallthrough();
  app.add_flag("--json", tool.json, "for machines, instead of tables");
  app.add_option_function<std::string>(
         "-o,--output", [&tool](const std::string& format) { tool.json = format == "json"; },
         "table or json")
      ->check(CLI::IsMember({"table", "json"}));
  for (const auto add : {AddIndex, AddVerify, AddStats, AddShow, AddCat, AddPack, AddSplit,
                         AddBench, AddPreflight}) {
    add(app, tool);
  }
}

int Main(int argc, char** argv) {
  SetLogProgram("muster-data");
  SetCommit(CodeVersion());
  // Warnings concern people; what is begun and done, the progress line tells.
  if (::getenv("MUSTER_LOG_LEVEL") == nullptr) SetLogLevel(LogLevel::kWarning);
  std::ios::sync_with_stdio(false);
  CLI::App app("Looks at data sets, checks them, packs them.", "muster-data");
  DataTool tool{DataFileSystem(), PosixFileSystem(), std::cin, std::cout};
  AddCommands(app, tool);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 says that a command is missing, though it is unknown.
    if (app.get_subcommands().empty() && !app.remaining().empty()) {
      std::cerr << "muster-data: there is no command " << app.remaining().front()
                << "; --help shows those that there are" << std::endl;
      return kBadUsage;
    }
    return app.exit(error) == 0 ? 0 : kBadUsage;
  }
  CatchInterrupts();
  ::signal(SIGPIPE, SIG_IGN);  // a reader that goes is an error of the write
  const absl::StatusOr<int> code = tool.run();
  std::cout.flush();
  if (!code.ok()) {
    std::cerr << "muster-data: " << code.status().message() << std::endl;
    return absl::IsCancelled(code.status()) ? kWasInterrupted : kFaulty;
  }
  if (!std::cout) {
    std::cerr << "muster-data: the output could not be written" << std::endl;
    return kFaulty;
  }
  return *code;
}

}  // namespace
}  // namespace muster::worker

int main(int argc, char** argv) { return muster::worker::Main(argc, argv); }
