#include "controller/config.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/daemon/daemon_options.h"
#include "common/os/host_port.h"
#include "common/os/loopback.h"

namespace muster::controller {
namespace {

constexpr absl::Duration kMinInterval = absl::Milliseconds(50);
constexpr absl::Duration kMaxDuration = absl::Hours(24 * 365 * 10);
constexpr uint64_t kMinJobLogBytes = 64 << 10;
constexpr uint64_t kMinJobMetricsBytes = 1 << 20;
constexpr uint64_t kMinMetricsBytes = 16ull << 20;
// As long as policy/archive/archivable_jobs.h keeps every job.
constexpr absl::Duration kMinForgetAfter = absl::Minutes(5);
// As long as an agent lets ranks live without a controller, unless their job says otherwise.
constexpr absl::Duration kMinForgetGoneAfter = absl::Hours(1);
// A renewed one is in use within twice kTlsRefreshSeconds of the renewal.
constexpr absl::Duration kMinCertificate = absl::Seconds(30);
constexpr absl::Duration kMinBackupInterval = absl::Seconds(1);
constexpr uint64_t kMinRecentJobs = 100;
constexpr uint64_t kMinEndedJobs = 1000;

void DescribeOptions(CLI::App& app, Config& config) {
  app.add_option("--data-dir", config.data_dir,
                 "Folder of the databases, the token and the lock; made when missing")
      ->type_name("DIR")
      ->required();
  app.add_option("--listen", config.listen, "Address for people (the CLI); port 0 picks one")
      ->capture_default_str()
      ->type_name("HOST:PORT");
  app.add_option("--worker-listen", config.worker_listen, "Address for the workers' agents")
      ->capture_default_str()
      ->type_name("HOST:PORT");
  app.add_option("--http-listen", config.http_listen,
                 "Address of /metrics, /healthz, /readyz, /sd and the page")
      ->capture_default_str()
      ->type_name("HOST:PORT");
  app.add_option("--checkpoint-root", config.checkpoint_root,
                 "Folder, reached by every worker, for checkpoints of jobs that name none; default "
                 "DATA-DIR/checkpoints")
      ->type_name("DIR");
  AddDuration(app, "--heartbeat-interval", &config.heartbeat_interval, "How often agents report");
  AddDuration(app, "--suspect-after", &config.suspect_after,
              "A worker silent for this long gets no new work");
  AddDuration(app, "--lost-after", &config.lost_after, "A worker silent for this long is given up");
  AddDuration(app, "--startup-grace", &config.startup_grace,
              "No worker is given up this soon after a start");
  AddDuration(app, "--start-timeout", &config.start_timeout,
              "A placed job that neither trains nor gets nearer to it for this long starts over");
  AddDuration(app, "--forget-lost-after", &config.forget_lost_after,
              "A lost worker that holds nothing leaves the list after this long, or after "
              "--quarantine-longest if that is longer; 0: never");
  AddDuration(app, "--forget-gone-after", &config.forget_gone_after,
              "A worker lost with ranks on it is taken for gone, and leaves the list, after the "
              "longest of this, --forget-lost-after and --quarantine-longest; 0: only by `muster "
              "nodes forget --gone`");
  app.add_option(
         "--recent-jobs", config.recent_jobs,
         "So many jobs that have ended are kept in memory, and each for an hour; those that "
         "ended earlier are read from history.db when somebody asks")
      ->capture_default_str()
      ->type_name("N");
  AddDuration(app, "--forget-ended-after", &config.forget_ended_after,
              "A job that ended leaves the record after this long, unless it has a checkpoint; 0: "
              "never");
  app.add_option("--max-ended-jobs", config.max_ended_jobs,
                 "While history.db holds more jobs, the longest ended of those without a "
                 "checkpoint leave the record earlier; 0: no bound")
      ->capture_default_str()
      ->type_name("N");
  AddDuration(app, "--fair-share-half-life", &config.fair_share_half_life,
              "What a project has used counts half after this long");
  AddDuration(app, "--grow-after", &config.grow_after,
              "A gang with a range of ranks grows into idle slots when it has run for this long");
  AddDuration(app, "--shrink-after", &config.shrink_after,
              "It shrinks for a job of its own priority when it has run for this long");
  AddDuration(app, "--restart-cost", &config.restart_cost,
              "What a resize keeps a gang from training: growing must save twice as much");
  app.add_option("--quarantine-after", config.quarantine_after,
                 "Incidents within --quarantine-window after which a worker gets no new work; 0: "
                 "never")
      ->capture_default_str()
      ->type_name("N");
  AddDuration(app, "--quarantine-window", &config.quarantine_window,
              "Older incidents do not count against a worker");
  AddDuration(app, "--quarantine-first", &config.quarantine_first,
              "The first quarantine of a worker; each next one is twice as long");
  AddDuration(app, "--quarantine-longest", &config.quarantine_longest, "No quarantine is longer");
  AddDuration(app, "--series-grace", &config.series_grace,
              "Prometheus series of a finished job stay this long");
  AddDuration(app, "--metrics-retention", &config.metrics_retention,
              "Points and logs of a finished job are removed after this long");
  AddBytes(app, "--metrics-max-bytes", &config.metrics_max_bytes,
           "Above this size of metrics.db the longest finished jobs lose points and logs first");
  AddBytes(app, "--job-log-max-bytes", &config.job_log_max_bytes,
           "Of one job's logs so much is kept; beyond it the oldest go, while it runs too");
  AddBytes(app, "--job-metrics-max-bytes", &config.job_metrics_max_bytes,
           "Likewise of its points, as they are packed");
  AddBytes(app, "--audit-max-bytes", &config.audit_max_bytes,
           "Room for the record of changes and denials; the oldest rows go first");
  AddBytes(app, "--uploads-max-bytes", &config.uploads_max_bytes,
           "Room for the folders that people upload for their jobs");
  app.add_option("--backup-dir", config.backup_dir,
                 "Folder for backups of this controller alone, on another disk than --data-dir; it "
                 "must be there. None are made without it")
      ->type_name("DIR");
  AddDuration(app, "--backup-every", &config.backup_every,
              "How often a backup is made; 0: only by `muster admin backup`");
  app.add_option("--backup-keep", config.backup_keep, "So many backups are kept, the newest")
      ->capture_default_str()
      ->type_name("N");
  app.add_flag("--accept-lost-history", config.accept_lost_history,
               "After `musterd restore`: go on although workers have done more than the backup "
               "knows; ranks that it does not know are ended");
  app.add_option("--calls-per-second", config.calls_per_second,
                 "Calls of one caller (token and address) beyond this wait: RESOURCE_EXHAUSTED; 0: "
                 "no bound")
      ->capture_default_str()
      ->type_name("N");
  AddTlsFiles(app, &config.tls, "workers, which then show them instead of the token");
  app.add_option("--autoscale", config.autoscale,
                 "File that names pools whose workers are started and stopped with the queue, by a "
                 "program or by Kubernetes")
      ->type_name("FILE");
  AddDuration(app, "--certificate-lifetime", &config.certificate_lifetime,
              "A certificate that a machine gets by `muster-worker join` is valid for this long; "
              "its agent renews it when two thirds have passed");
  app.add_option("--scrape-token-file", config.scrape_token_file,
                 "File with the token that readers of --http-listen show beyond loopback, where "
                 "that port is encrypted, too; `musterd init` makes one")
      ->type_name("FILE");
  app.add_flag("--insecure", config.insecure,
               "Listen beyond loopback although nothing is encrypted");
}

absl::Status CheckDuration(absl::string_view name, absl::Duration value, absl::Duration least) {
  if (value < least || value > kMaxDuration) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", HumanDuration(value),
                                                   " is not between ", HumanDuration(least),
                                                   " and ten years"));
  }
  return absl::OkStatus();
}

absl::Status CheckBackups(const Config& config) {
  if (config.backup_every != absl::ZeroDuration()) {
    MUSTER_RETURN_IF_ERROR(
        CheckDuration("--backup-every", config.backup_every, kMinBackupInterval));
  }
  if (config.backup_keep == 0) {
    return absl::InvalidArgumentError("--backup-keep: 0 would keep none; at least 1");
  }
  if (config.backup_dir.empty()) return absl::OkStatus();
  // By their names alone: to look at a mount whose server is away may take for ever. The maker
  // looks where links lead.
  std::error_code error;
  const auto name_of = [&error](const std::string& path) {
    return (std::filesystem::absolute(path, error).lexically_normal() / "").string();
  };
  const std::string data = name_of(config.data_dir), backups = name_of(config.backup_dir);
  if (!error && absl::StartsWith(backups, data)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--backup-dir: ", config.backup_dir, " lies in --data-dir (", config.data_dir,
                     "), and would be lost with it; choose a folder on another disk"));
  }
  return absl::OkStatus();
}

// Whether it is served beyond loopback.
bool Leaves(const std::string& address) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  return parsed.ok() && !IsLoopback(parsed->host);
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  CommandLine result;
  CLI::App app{
      "musterd: Muster's controller. Queues and places training jobs and keeps their record.",
      "musterd"};
  app.footer(
      "`musterd init` makes a CA, certificates and a configuration; `musterd certify NAME` a "
      "worker's certificate; `musterd restore FOLDER` makes a data folder of a backup.");
  DescribeOptions(app, result.config);
  MUSTER_ASSIGN_OR_RETURN(result.text, ParseDaemonOptions(app, argc, argv));
  if (!result.text.empty()) return result;
  result.config.own_checkpoint_root = result.config.checkpoint_root.empty();
  if (result.config.own_checkpoint_root) {
    result.config.checkpoint_root = absl::StrCat(result.config.data_dir, "/checkpoints");
  }
  // Agents get this path, and their working directory is another.
  std::error_code error;
  const auto absolute = std::filesystem::absolute(result.config.checkpoint_root, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("--checkpoint-root: ", result.config.checkpoint_root, ": ", error.message()));
  }
  result.config.checkpoint_root = absolute.lexically_normal().string();
  MUSTER_RETURN_IF_ERROR(CheckConfig(result.config));
  return result;
}

absl::Status CheckConfig(const Config& config) {
  if (config.data_dir.empty()) return absl::InvalidArgumentError("--data-dir: is empty");
  MUSTER_RETURN_IF_ERROR(CheckTlsFlags(config.tls));
  const bool may_leave = config.insecure || !config.tls.empty();
  constexpr char kGiveTls[] = "use 127.0.0.1, give --tls-ca, --tls-cert and --tls-key, or give";
  MUSTER_RETURN_IF_ERROR(CheckAddressFlag("--listen", config.listen, may_leave, kGiveTls));
  MUSTER_RETURN_IF_ERROR(
      CheckAddressFlag("--worker-listen", config.worker_listen, may_leave, kGiveTls));
  const bool guards = !config.tls.empty() && !config.scrape_token_file.empty();
  MUSTER_RETURN_IF_ERROR(CheckAddressFlag(
      "--http-listen", config.http_listen, config.insecure || guards,
      "use 127.0.0.1, give --tls-ca, --tls-cert, --tls-key and --scrape-token-file (`musterd init` "
      "makes them), or give"));
  MUSTER_RETURN_IF_ERROR(
      CheckDuration("--heartbeat-interval", config.heartbeat_interval, kMinInterval));
  MUSTER_RETURN_IF_ERROR(CheckDuration("--suspect-after", config.suspect_after, kMinInterval));
  MUSTER_RETURN_IF_ERROR(CheckDuration("--lost-after", config.lost_after, kMinInterval));
  MUSTER_RETURN_IF_ERROR(
      CheckDuration("--startup-grace", config.startup_grace, absl::ZeroDuration()));
  MUSTER_RETURN_IF_ERROR(CheckDuration("--start-timeout", config.start_timeout, kMinInterval));
  MUSTER_RETURN_IF_ERROR(
      CheckDuration("--fair-share-half-life", config.fair_share_half_life, absl::Minutes(1)));
  for (const auto& [name, value] : {std::pair("--grow-after", config.grow_after),
                                    std::pair("--shrink-after", config.shrink_after),
                                    std::pair("--restart-cost", config.restart_cost)}) {
    MUSTER_RETURN_IF_ERROR(CheckDuration(name, value, absl::ZeroDuration()));
  }
  for (const auto& [name, value] : {std::pair("--quarantine-window", config.quarantine_window),
                                    std::pair("--quarantine-first", config.quarantine_first),
                                    std::pair("--quarantine-longest", config.quarantine_longest)}) {
    MUSTER_RETURN_IF_ERROR(CheckDuration(name, value, absl::Seconds(1)));
  }
  if (config.quarantine_longest < config.quarantine_first) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--quarantine-longest (", HumanDuration(config.quarantine_longest),
        ") is shorter than --quarantine-first (", HumanDuration(config.quarantine_first), ")"));
  }
  MUSTER_RETURN_IF_ERROR(
      CheckDuration("--forget-lost-after", config.forget_lost_after, absl::ZeroDuration()));
  if (config.forget_gone_after != absl::ZeroDuration()) {
    MUSTER_RETURN_IF_ERROR(
        CheckDuration("--forget-gone-after", config.forget_gone_after, kMinForgetGoneAfter));
  }
  if (config.forget_ended_after != absl::ZeroDuration()) {
    MUSTER_RETURN_IF_ERROR(
        CheckDuration("--forget-ended-after", config.forget_ended_after, kMinForgetAfter));
  }
  MUSTER_RETURN_IF_ERROR(CheckBackups(config));
  if (config.recent_jobs < kMinRecentJobs) {
    return absl::InvalidArgumentError(
        absl::StrCat("--recent-jobs: ", config.recent_jobs, " is less than ", kMinRecentJobs));
  }
  if (config.max_ended_jobs != 0 && config.max_ended_jobs < kMinEndedJobs) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max-ended-jobs: ", config.max_ended_jobs, " is less than ", kMinEndedJobs));
  }
  MUSTER_RETURN_IF_ERROR(
      CheckDuration("--certificate-lifetime", config.certificate_lifetime, kMinCertificate));
  MUSTER_RETURN_IF_ERROR(
      CheckDuration("--series-grace", config.series_grace, absl::ZeroDuration()));
  MUSTER_RETURN_IF_ERROR(
      CheckDuration("--metrics-retention", config.metrics_retention, absl::ZeroDuration()));
  if (!(config.heartbeat_interval < config.suspect_after &&
        config.suspect_after < config.lost_after)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--heartbeat-interval (", HumanDuration(config.heartbeat_interval),
        ") must be shorter than ", "--suspect-after (", HumanDuration(config.suspect_after),
        "), and that shorter than --lost-after (", HumanDuration(config.lost_after), ")"));
  }
  if (config.metrics_max_bytes < kMinMetricsBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--metrics-max-bytes: ", config.metrics_max_bytes, " is less than ", kMinMetricsBytes));
  }
  if (config.job_log_max_bytes < kMinJobLogBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--job-log-max-bytes: ", config.job_log_max_bytes, " is less than ", kMinJobLogBytes));
  }
  if (config.job_metrics_max_bytes < kMinJobMetricsBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--job-metrics-max-bytes: ", config.job_metrics_max_bytes, " is less than ",
                     kMinJobMetricsBytes));
  }
  return absl::OkStatus();
}

bool ServesUnencrypted(const Config& config) {
  if (Leaves(config.http_listen) && !GuardsHttp(config)) return true;
  return config.tls.empty() && (Leaves(config.listen) || Leaves(config.worker_listen));
}

bool GuardsHttp(const Config& config) {
  return Leaves(config.http_listen) && !config.tls.empty() && !config.scrape_token_file.empty();
}

}  // namespace muster::controller
