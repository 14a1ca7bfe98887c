// What the daemons' command lines have in common: flags that are durations or sizes, a YAML file
// with any of the flags as keys, and faults as a Status. Built on CLI11, whose exceptions end here.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/tls/tls_files.h"

namespace muster {

// The default shown is what `out` holds.
void AddDuration(CLI::App& app, const std::string& flag, absl::Duration* out,
                 const std::string& help);
void AddBytes(CLI::App& app, const std::string& flag, uint64_t* out, const std::string& help);

// --tls-ca, --tls-cert and --tls-key. `peers`: whose certificates the CA signs.
void AddTlsFiles(CLI::App& app, TlsFiles* out, const std::string& peers);

// INVALID_ARGUMENT: some of the three are given, and not all.
absl::Status CheckTlsFlags(const TlsFiles& files);

// Adds --config and --version to `app`, whose name is the program's, and reads the command line and
// the file. Not empty: a text to print and end with (--help, --version). NOT_FOUND: there is no
// such file; INVALID_ARGUMENT: anything else, naming the flag or key. In the file a value is plain
// text, or a list of them for a flag that may be repeated, or a map for one that takes KEY=VALUE.
absl::StatusOr<std::string> ParseDaemonOptions(CLI::App& app, int argc, const char* const* argv);

}  // namespace muster
