// The flags of `muster submit` and `muster run`, and what those that are short for --set say.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace muster::cli {

struct SubmitFlags {
  std::string file;
  std::vector<std::string> sets;
  // Short for --set of one field each, or of a few.
  std::optional<std::string> name, project, pool, ranks, workdir, upload, image;
  std::optional<std::string> gpus, gpu_type, cpus, memory;  // of each rank
  std::optional<std::string> priority, begin, deadline, max_run_time, array, checkpoint_every;
  std::optional<std::string> resume_from;
  std::vector<std::string> env;   // NAME=VALUE
  std::vector<std::string> tags;  // NAME=VALUE
  std::vector<std::string> after;
  std::vector<std::string> exclude;
  bool hold = false;
  std::string key;
  bool dry_run = false;
  bool check = false;
  bool wait = false;
  bool watch = false;
};

// Those that say what the job is, where it may run and for how long.
void AddJobFlags(CLI::App& command, SubmitFlags& flags);
// These and the rest. `flags` outlives the command, both times.
void AddSubmitFlags(CLI::App& command, SubmitFlags& flags);

// PATH=VALUE as --set takes it, to be laid over the file in this order, so that the named flags win
// over --set. INVALID_ARGUMENT: a flag's value is none. Pure.
absl::StatusOr<std::vector<std::string>> SpecOverrides(const SubmitFlags& flags, absl::Time now);

}  // namespace muster::cli
