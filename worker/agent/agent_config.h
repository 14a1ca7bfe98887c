// Everything that can be set on muster-worker, from flags and from `--config FILE` (YAML; a key is
// a flag's name without its dashes; a flag wins). Reads the file; otherwise pure.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/tls/tls_files.h"
#include "worker/agent/preemption/notice_source.h"

namespace muster::worker {

struct AgentConfig {
  std::string controller;  // HOST:PORT of musterd's worker address
  std::string token_file;  // empty where `tls` is given: then the certificate says who this is
  std::string name;        // of this worker; default: the host's
  std::string data_dir;    // lock, ranks/, spool/, endpoints.json
  std::optional<uint32_t> slots;  // CPU slots; default: the GPUs if any, else one per core
  std::string pool = "default";
  std::map<std::string, std::string> labels;
  std::string advertise_address;  // default: of the route to the controller
  std::string http_listen = "127.0.0.1:0";
  std::string http_cert;          // of that port
  std::string http_key;           // its key; empty: that of `tls`
  std::string scrape_token_file;  // what it wants beyond loopback
  std::string trainer;            // default: muster-trainer beside this program
  std::string data_tool;          // muster-data; default: beside this program. No flag
  absl::Duration stop_grace = absl::Seconds(30);  // from SIGTERM to the end of the last rank
  uint64_t spool_max_bytes = 256ull << 20;
  // From SIGKILL until a rank that lives on is called unkillable, and the worker is drained. No
  // flag.
  absl::Duration kill_patience = absl::Seconds(60);
  // With a path that a job names, until it is said to hang and what waits for it fails. No flag.
  absl::Duration path_patience = absl::Seconds(30);
  bool cgroups = true;  // make one a rank where that is possible. No flag: tests go without
  // The umask of ranks; nothing: the agent's. No flag: main has the one that it was started with.
  std::optional<mode_t> rank_file_mask;
  bool allow_commands = false;  // run jobs that are any program, not only the trainer
  // What runs commands with an image: auto (what is in PATH), podman, apptainer or none.
  std::string container_runtime = "auto";
  // muster-init, for podman; default: beside this program. No flag.
  std::string container_init;
  std::vector<std::string> container_options;  // more words for each container, by a runtime named
  TlsFiles tls;                                // its certificate is for `name`
  bool renew_certificate = false;              // by the controller, in the place of `tls.cert`
  // Who tells that this machine will be taken away, and where it is asked: see
  // preemption/notice_source.h.
  std::string preemption_source = kNoSource;
  std::string preemption_url;  // empty: the clouds' own
  bool insecure = false;       // speak beyond loopback without TLS
};

struct AgentCommandLine {
  AgentConfig config;
  std::string text;  // not empty: --help or --version was asked; print it and exit 0
};

// INVALID_ARGUMENT: an unknown flag or key, or a value that does not parse or is out of range; the
// message names it. NOT_FOUND: the config file cannot be read. FAILED_PRECONDITION: an address
// beyond loopback without `insecure`.
absl::StatusOr<AgentCommandLine> ParseAgentCommandLine(int argc, const char* const* argv);

// Whether the HTTP port is beyond loopback, by TLS and for who shows the scrape token.
bool GuardsHttp(const AgentConfig& config);

// Whether it would be refused without `insecure`: it speaks beyond loopback without TLS, or shows
// its metrics there to everybody. Of a config that CheckAgentConfig accepts.
bool IsUnguarded(AgentConfig config);

// What ParseAgentCommandLine checks, for a config made by hand.
absl::Status CheckAgentConfig(const AgentConfig& config);

// What this agent's cgroups and containers are called by. Two agents of one machine may have one
// name, with different controllers; but never one data folder, which must be absolute here and
// without links.
std::string CgroupName(const AgentConfig& config);

// The host's name, without its domain and in lower case; empty: it has none.
std::string DefaultWorkerName();

// The path of a program of Muster's in the folder of this one; its name alone where that folder is
// not known.
std::string BesideThisProgram(const char* name);

}  // namespace muster::worker
