// Everything behind musterd's HTTP port: /metrics, /healthz, /readyz, /sd and the page.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/metrics/http_server.h"
#include "common/metrics/metric_families.h"
#include "controller/engine/engine.h"
#include "controller/metrics/metrics_ingest.h"
#include "controller/web/series.h"

namespace muster::controller {

struct WebOptions {
  std::string data_dir;  // for the databases' sizes
  absl::Duration series_grace;
  bool insecure = false;
  bool has_tls = false;  // then workers have a token for their metrics, too
  std::function<BackupTimes()> backups = nullptr;         // null: none are made
  std::function<absl::Time()> certificate_end = nullptr;  // of musterd's; null: no TLS
  // By port: those that were closed because too many were open.
  std::function<std::map<std::string, uint64_t>()> closed_connections = nullptr;
};

// Thread-safe; outlives the HTTP server. All references outlive it.
class WebPages : private prometheus::Collectable {
 public:
  WebPages(WebOptions options, const Engine& engine, const MetricsIngest& ingest,
           MetricFamilies& families, Clock& clock);

  // Handlers for HttpServer::Create. `ready`: is the controller serving? `details_token`: who shows
  // it is told by /readyz why it is not, and what to look at; others hear one word. Empty: nobody
  // is told; none: everybody.
  std::map<std::string, HttpHandler> Handlers(
      std::function<absl::Status()> ready, std::optional<std::string> details_token = std::nullopt);

 private:
  // The series that are counted anew at each scrape.
  std::vector<prometheus::MetricFamily> Collect() const override;

  const WebOptions options_;
  const Engine& engine_;
  const MetricsIngest& ingest_;
  MetricFamilies& families_;
  mutable CheckpointRules checkpoint_rules_;
  Clock& clock_;
  const absl::Time started_;
};

}  // namespace muster::controller
