#include "worker/agent/agent_config.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/daemon/daemon_options.h"
#include "common/os/host_name.h"
#include "common/os/host_port.h"
#include "common/os/loopback.h"
#include "common/protocol/name_rule.h"
#include "worker/agent/device/device_probe.h"

namespace muster::worker {
namespace {

constexpr uint32_t kMaxSlots = 1024;
constexpr size_t kMaxLabels = 32;
constexpr size_t kMaxContainerOptions = 64;
constexpr size_t kMaxLabelBytes = 128;
constexpr uint64_t kMinSpoolBytes = 16u << 20;
constexpr absl::Duration kMaxStopGrace = absl::Hours(1);

void AddLabels(CLI::App& app, AgentConfig& config) {
  app.add_option_function<std::vector<std::string>>(
         "--label",
         [&config](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             const std::pair<std::string, std::string> label =
                 absl::StrSplit(text, absl::MaxSplits('=', 1));
             if (text.find('=') == std::string::npos || !config.labels.insert(label).second) {
               throw CLI::ValidationError(
                   "--label", absl::StrCat("`", text, "` is not KEY=VALUE, or is there twice"));
             }
           }
         },
         "A label that jobs can select by; may be repeated")
      ->type_name("KEY=VALUE");
}

void DescribeOptions(CLI::App& app, AgentConfig& config) {
  app.add_option("--controller", config.controller, "musterd's address for workers")
      ->type_name("HOST:PORT")
      ->required();
  app.add_option("--token-file", config.token_file,
                 "File with the controller's token (<its data dir>/token); not beside --tls-cert")
      ->type_name("FILE");
  app.add_option("--name", config.name, "Name of this worker; default: the host's")
      ->type_name("NAME");
  app.add_option("--data-dir", config.data_dir,
                 "Folder of the spool and the ranks; made when missing")
      ->type_name("DIR")
      ->required();
  app.add_option("--slots", config.slots, "CPU slots; default: none beside GPUs, else one per core")
      ->type_name("N");
  app.add_option("--pool", config.pool, "Pool that this worker belongs to")
      ->capture_default_str()
      ->type_name("NAME");
  AddLabels(app, config);
  app.add_option("--advertise-address", config.advertise_address,
                 "Address at which other workers reach ranks here; default: that of the route to "
                 "the controller")
      ->type_name("IP");
  app.add_option("--http-listen", config.http_listen,
                 "Address of /metrics and /healthz; port 0 picks one. Beyond loopback by TLS, and "
                 "for who shows the scrape token")
      ->capture_default_str()
      ->type_name("HOST:PORT");
  app.add_option(
         "--http-cert", config.http_cert,
         "PEM file: a certificate for that port, for the key of --tls-key unless --http-key "
         "is given; `muster-worker join` writes it, and --renew-certificate renews it")
      ->type_name("FILE");
  app.add_option("--http-key", config.http_key, "PEM file: the private key of --http-cert")
      ->type_name("FILE");
  app.add_option(
         "--scrape-token-file", config.scrape_token_file,
         "File with the token that this port wants beyond loopback, which others cannot read")
      ->type_name("FILE");
  app.add_option("--trainer", config.trainer,
                 "The trainer's program; default: muster-trainer beside this one")
      ->type_name("FILE");
  AddDuration(app, "--stop-grace", &config.stop_grace,
              "After SIGTERM, ranks have this long to save and leave");
  AddBytes(app, "--spool-max-bytes", &config.spool_max_bytes,
           "Metrics and logs kept on disk while the controller is away");
  app.add_flag("--allow-commands", config.allow_commands,
               "Run `command:` jobs, any program that a user submits, and networks that are code "
               "(plug-ins, TorchScript files), as this agent's own user");
  app.add_option(
         "--container-runtime", config.container_runtime,
         "What runs commands with an image: podman, apptainer, auto (what is in PATH) or none")
      ->capture_default_str()
      ->type_name("NAME");
  app.add_option("--container-options", config.container_options,
                 "A word more for each container, as --container-options=--ulimit=nofile=4096; may "
                 "be repeated; needs --container-runtime podman or apptainer")
      ->allow_extra_args(false)
      ->type_name("WORD");
  AddTlsFiles(app, &config.tls, "the controller");
  app.add_flag("--renew-certificate", config.renew_certificate,
               "Let the controller renew --tls-cert, in its place, when two thirds of its life "
               "have passed; `muster-worker join` writes it");
  app.add_option("--preemption-source", config.preemption_source,
                 "Who tells that this machine will be taken away, so that ranks save and leave "
                 "before: the metadata service of aws, gcp or azure, or none")
      ->capture_default_str()
      ->type_name("NAME");
  app.add_option("--preemption-url", config.preemption_url,
                 absl::StrCat("Where that service is asked; default: ", kMetadataUrl))
      ->type_name("URL");
  app.add_flag("--insecure", config.insecure,
               "Speak beyond loopback although nothing is encrypted");
}

absl::Status CheckContainers(const AgentConfig& config) {
  const std::string& runtime = config.container_runtime;
  const bool named = runtime == "podman" || runtime == "apptainer";
  if (!named && runtime != "auto" && runtime != "none") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--container-runtime: `", runtime, "` is none of podman, apptainer, auto and none"));
  }
  if (!config.container_options.empty() && !named) {
    return absl::InvalidArgumentError(
        "--container-options: needs --container-runtime podman or apptainer, whose words they are");
  }
  if (config.container_options.size() > kMaxContainerOptions) {
    return absl::InvalidArgumentError(
        absl::StrCat("--container-options: at most ", kMaxContainerOptions));
  }
  for (const std::string& option : config.container_options) {
    // A word of its own would be taken for the image.
    if (option.size() < 2 || option[0] != '-' || option == "--") {
      return absl::InvalidArgumentError(absl::StrCat(
          "--container-options: `", option, "` is no option; write it as one word: --NAME=VALUE"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string BesideThisProgram(const char* name) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? name : (self.parent_path() / name).string();
}

// "Node-7.example.org" -> "node-7".
std::string DefaultWorkerName() {
  const std::vector<std::string> parts =
      absl::StrSplit(absl::AsciiStrToLower(HostName()), absl::MaxSplits('.', 1));
  return parts.front();
}

std::string CgroupName(const AgentConfig& config) {
  uint64_t hash = 0;
  for (const char byte : config.data_dir) hash = SplitMix64(hash ^ static_cast<uint8_t>(byte));
  return absl::StrCat(config.name, "-", absl::Hex(hash, absl::kZeroPad16));
}

bool GuardsHttp(const AgentConfig& config) {
  const absl::StatusOr<HostPort> listen = ParseHostPort(config.http_listen);
  return listen.ok() && !IsLoopback(listen->host) && !config.http_cert.empty() &&
         !config.scrape_token_file.empty();
}

bool IsUnguarded(AgentConfig config) {
  config.insecure = false;
  return absl::IsFailedPrecondition(CheckAgentConfig(config));
}

absl::Status CheckAgentConfig(const AgentConfig& config) {
  MUSTER_RETURN_IF_ERROR(CheckTlsFlags(config.tls));
  if (config.renew_certificate && config.tls.empty()) {
    return absl::InvalidArgumentError("--renew-certificate: needs --tls-ca, --tls-cert, --tls-key");
  }
  MUSTER_RETURN_IF_ERROR(CheckAddressFlag("--controller", config.controller,
                                          config.insecure || !config.tls.empty(),
                                          "give --tls-ca, --tls-cert and --tls-key, or give"));
  if (!config.http_cert.empty() && config.tls.empty()) {
    return absl::InvalidArgumentError("--http-cert: needs --tls-ca, --tls-cert, --tls-key");
  }
  if (!config.http_key.empty() && (config.http_cert.empty() || config.renew_certificate)) {
    return absl::InvalidArgumentError(
        "--http-key: goes with --http-cert, and not with --renew-certificate, which renews both "
        "certificates for one key");
  }
  const bool guards = !config.http_cert.empty() && !config.scrape_token_file.empty();
  MUSTER_RETURN_IF_ERROR(CheckAddressFlag(
      "--http-listen", config.http_listen, config.insecure || guards,
      "give --http-cert and --scrape-token-file, which `muster-worker join` writes, or give"));
  if (config.data_dir.empty()) return absl::InvalidArgumentError("--data-dir: is empty");
  if (!IsName(config.name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--name: `", config.name,
                     "` must be lower-case letters, digits and inner dashes, at most 63"));
  }
  if (!IsName(config.pool))
    return absl::InvalidArgumentError(absl::StrCat("--pool: `", config.pool, "` is no name"));
  if (config.slots.has_value() && (*config.slots == 0 || *config.slots > kMaxSlots)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--slots: ", *config.slots, " is not between 1 and ", kMaxSlots));
  }
  if (config.labels.size() > kMaxLabels)
    return absl::InvalidArgumentError("--label: at most 32 labels");
  for (const auto& [key, value] : config.labels) {
    if (key.empty() || key.size() > kMaxLabelBytes || value.size() > kMaxLabelBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("--label: `", key, "`: key and value have at most 128 bytes"));
    }
  }
  MUSTER_RETURN_IF_ERROR(CheckContainers(config));
  MUSTER_RETURN_IF_ERROR(CheckNoticeSource(config.preemption_source, config.preemption_url));
  if (config.stop_grace < absl::ZeroDuration() || config.stop_grace > kMaxStopGrace) {
    return absl::InvalidArgumentError("--stop-grace: must be at most 1h");
  }
  if (config.spool_max_bytes < kMinSpoolBytes) {
    return absl::InvalidArgumentError("--spool-max-bytes: must be at least 16MiB");
  }
  return absl::OkStatus();
}

absl::StatusOr<AgentCommandLine> ParseAgentCommandLine(int argc, const char* const* argv) {
  AgentCommandLine result;
  AgentConfig& config = result.config;
  CLI::App app{"muster-worker: runs the ranks that the controller gives to this machine.",
               "muster-worker"};
  app.footer("`muster-worker join` makes this machine a worker of a cluster.");
  DescribeOptions(app, config);
  MUSTER_ASSIGN_OR_RETURN(result.text, ParseDaemonOptions(app, argc, argv));
  if (!result.text.empty()) return result;
  if (config.name.empty()) config.name = DefaultWorkerName();
  if (config.trainer.empty()) config.trainer = BesideThisProgram("muster-trainer");
  if (config.data_tool.empty()) config.data_tool = BesideThisProgram("muster-data");
  if (config.container_init.empty()) config.container_init = BesideThisProgram("muster-init");
  MUSTER_RETURN_IF_ERROR(CheckAgentConfig(config));
  if (config.token_file.empty() && config.tls.empty()) {
    return absl::InvalidArgumentError(
        "--token-file: is missing; give it, or a certificate of this worker with --tls-ca, "
        "--tls-cert and --tls-key");
  }
  return result;
}

}  // namespace muster::worker
