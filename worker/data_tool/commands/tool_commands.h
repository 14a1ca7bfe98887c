// The commands of muster-data: their arguments, their help, and what they print. One file a
// command.
//
// AddX declares a command on the command line. When it is the one that was asked for, parsing sets
// `run`, which returns the exit code: 0 done, 1 something is wrong with the data; or the error to
// print. The tool must outlive the App.
#pragma once

#include <functional>
#include <iostream>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "common/object_store/cache/any_file_system.h"
#include "worker/data_tool/base/open_data.h"
#include "worker/data_tool/base/progress_line.h"

namespace muster::worker {

struct DataTool {
  AnyFileSystem& data;  // what is looked at
  FileSystem& local;    // indexes, and what is written
  std::istream& in;
  std::ostream& out;
  bool json = false;
  std::function<absl::StatusOr<int>()> run;
};

inline constexpr int kSound = 0;
inline constexpr int kFaulty = 1;

void AddBench(CLI::App& app, DataTool& tool);
void AddCat(CLI::App& app, DataTool& tool);
void AddIndex(CLI::App& app, DataTool& tool);
void AddPack(CLI::App& app, DataTool& tool);
void AddPreflight(CLI::App& app, DataTool& tool);
void AddShow(CLI::App& app, DataTool& tool);
void AddSplit(CLI::App& app, DataTool& tool);
void AddStats(CLI::App& app, DataTool& tool);
void AddVerify(CLI::App& app, DataTool& tool);

// What several of them share.
// Of data; without the query of a signed URL, which is kept for reading.
void AddPath(CLI::App& command, DataTool& tool, std::string& path);
void AddSplitName(CLI::App& command, std::string& split);
void AddThreads(CLI::App& command, int& threads);
int ThreadsOr(int threads);  // the machine's cores for 0

// The text of a job's resolved spec, of that file or, for -, of standard input.
absl::StatusOr<std::string> ReadSpec(const std::string& job, DataTool& tool);

// The indexes of the data at a path; shows how far it is while it makes them.
absl::StatusOr<DataIndexes> OpenIndexes(DataTool& tool, const std::string& path, bool anew = false);

}  // namespace muster::worker
