// Everything that can be set on musterd, from flags and from `--config FILE`: one list of options
// for both, since a key in the file is a flag's name without its dashes. A flag wins over the file.
// Reads the file; otherwise pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/tls/tls_files.h"

namespace muster::controller {

struct Config {
  std::string data_dir;                   // state.db, metrics.db, token, lock, endpoints.json
  std::string listen = "127.0.0.1:7070";  // people; port 0 picks one
  std::string worker_listen = "127.0.0.1:7071";  // agents
  std::string http_listen = "127.0.0.1:7072";    // metrics, health, discovery, the page
  std::string checkpoint_root;                   // default: <data_dir>/checkpoints
  bool own_checkpoint_root = false;              // it is that default; no flag
  absl::Duration heartbeat_interval = absl::Seconds(3);
  absl::Duration suspect_after = absl::Seconds(9);   // a silent worker gets no new work
  absl::Duration lost_after = absl::Seconds(15);     // and is given up; also the lease of its ranks
  absl::Duration startup_grace = absl::Seconds(30);  // nobody is given up so soon after a start
  // A job that was placed may show no first step or evaluation, nor progress towards it, so long.
  absl::Duration start_timeout = absl::Minutes(5);
  // A lost worker that holds nothing leaves the list; 0: never. Where quarantine_longest is longer
  // that holds, so that nobody leaves a quarantine by being lost.
  absl::Duration forget_lost_after = absl::Hours(24);
  // One that was lost with ranks, which nobody has seen dead, leaves it too, and what they held is
  // free; 0: never, until a person says that it is gone. The longest of this, forget_lost_after and
  // quarantine_longest holds. Counted from the controller's start at the earliest. Longer than a
  // machine is out for a weekend or a repair, and than an agent lets ranks live without a
  // controller by default (restart.controller_lost_timeout: an hour). A job may set that to as much
  // as 30 days: then its ranks may live on slots that were given away.
  absl::Duration forget_gone_after = absl::Hours(7 * 24);
  // So many jobs that have ended are kept in memory; older ones are in history.db alone.
  uint64_t recent_jobs = 10'000;
  // An archived job is forgotten so long after its end, if it has no checkpoint; 0: never. While
  // more than so many are archived, the longest ended go earlier; 0: any number.
  absl::Duration forget_ended_after = absl::Hours(24 * 90);
  uint64_t max_ended_jobs = 1'000'000;
  absl::Duration fair_share_half_life = absl::Hours(7 * 24);  // of what a project has used
  // Elastic gangs: see policy/placement/elastic.h, whose defaults these are.
  absl::Duration grow_after = absl::Minutes(10);
  absl::Duration shrink_after = absl::Minutes(10);
  absl::Duration restart_cost = absl::Minutes(1);
  // Workers that keep failing: see policy/health/quarantine_rules.h, likewise.
  uint32_t quarantine_after = 3;  // incidents; 0: never
  absl::Duration quarantine_window = absl::Hours(1);
  absl::Duration quarantine_first = absl::Minutes(10);
  absl::Duration quarantine_longest = absl::Hours(24);
  absl::Duration series_grace =
      absl::Seconds(60);  // a finished job's Prometheus series stay this long
  absl::Duration metrics_retention = absl::Hours(24 * 30);  // a finished job's points and logs
  uint64_t metrics_max_bytes =
      8ull << 30;  // above it the longest finished jobs' points and logs go first
  uint64_t job_log_max_bytes = 256 << 20;    // of one job's logs; the oldest go
  uint64_t job_metrics_max_bytes = 1 << 30;  // of one job's points; likewise
  uint64_t audit_max_bytes = 256ull << 20;   // of the record of changes and denials
  uint64_t uploads_max_bytes = 4ull << 30;   // of the folders that people uploaded, all together
  std::string backup_dir;                    // empty: no backups are made
  absl::Duration backup_every = absl::Hours(1);  // 0: only when somebody asks
  uint32_t backup_keep = 24;                     // the newest so many stay
  // For a data folder that `musterd restore` made: give up what the backup does not know.
  bool accept_lost_history = false;
  uint32_t calls_per_second = 20'000;  // of each caller, with a burst of two seconds' worth; 0: any
  // Not empty: both gRPC ports are encrypted, and agents show certificates that its CA signed
  // instead of the token.
  TlsFiles tls;
  std::string autoscale;  // the file of autoscale/autoscale_file.h; empty: nothing is scaled
  absl::Duration certificate_lifetime = absl::Hours(24 * 14);  // of those that joined machines get
  // What readers of http_listen show beyond loopback, where it is encrypted by `tls`, too.
  std::string scrape_token_file;
  bool insecure = false;            // listen beyond loopback without TLS
  uint64_t max_descriptors = 4096;  // that this process may open; no flag: main finds out
};

struct CommandLine {
  Config config;
  std::string text;  // not empty: --help or --version was asked; print it and exit 0
};

// INVALID_ARGUMENT: an unknown flag or key, a value that does not parse, or one that CheckConfig
// refuses; the message names it. NOT_FOUND: the config file cannot be read.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv);

// INVALID_ARGUMENT: the values contradict one another or are out of range. FAILED_PRECONDITION: an
// address beyond loopback without `insecure`.
absl::Status CheckConfig(const Config& config);

// Whether something is served beyond loopback that is not encrypted.
bool ServesUnencrypted(const Config& config);

// Whether the HTTP port is encrypted and wants the scrape token: beyond loopback, where it can.
bool GuardsHttp(const Config& config);

}  // namespace muster::controller
