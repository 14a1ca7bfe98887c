#include "controller/web/web_pages.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/metrics/http_guard.h"
#include "controller/web/discovery.h"
#include "controller/web/page.h"

namespace muster::controller {
namespace {

// Of the file and of its write-ahead log.
uint64_t DatabaseBytes(const std::string& path) {
  uint64_t bytes = 0;
  for (const char* suffix : {"", "-wal"}) {
    std::error_code error;
    const uint64_t size = std::filesystem::file_size(absl::StrCat(path, suffix), error);
    if (!error) bytes += size;
  }
  return bytes;
}

uint64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0;
  uint64_t resident_pages = 0;
  statm >> pages >> resident_pages;
  return statm ? resident_pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

bool MayKnow(const ServedRequest& request, const std::optional<std::string>& token) {
  if (!token.has_value()) return true;
  const auto shown = request.headers.find("authorization");
  return !token->empty() && shown != request.headers.end() && ShowsToken(shown->second, *token);
}

}  // namespace

WebPages::WebPages(WebOptions options, const Engine& engine, const MetricsIngest& ingest,
                   MetricFamilies& families, Clock& clock)
    : options_(std::move(options)),
      engine_(engine),
      ingest_(ingest),
      families_(families),
      clock_(clock),
      started_(clock.Now()) {}

std::map<std::string, HttpHandler> WebPages::Handlers(std::function<absl::Status()> ready,
                                                      std::optional<std::string> details_token) {
  std::map<std::string, HttpHandler> handlers = DaemonHandlers(
      {this, &families_}, [] { return absl::OkStatus(); },
      [this, ready = std::move(ready)] {
        const absl::Status status = ready();
        return status.ok() ? ingest_.ready() : status;
      });
  // Ready, but somebody should look.
  handlers["/readyz"] = [this, probe = handlers["/readyz"],
                         token = std::move(details_token)](const ServedRequest& request) {
    ServedResponse response = probe(request);
    if (!MayKnow(request, token)) {
      response.body = response.status == 200 ? "ok\n" : "unavailable\n";
      return response;
    }
    response.body += ingest_.set_aside();
    response.body += engine_.held();
    return response;
  };
  handlers["/sd"] = [this](const ServedRequest&) {
    return ServedResponse{.content_type = "application/json",
                          .body = DiscoveryJson(*engine_.snapshot(), options_.has_tls)};
  };
  handlers.merge(PageHandlers());
  return handlers;
}

std::vector<prometheus::MetricFamily> WebPages::Collect() const {
  const std::shared_ptr<const Snapshot> snapshot = engine_.snapshot();
  SeriesInputs inputs;
  inputs.now = snapshot->LedgerTime(clock_.SinceBoot());
  inputs.series_grace = options_.series_grace;
  inputs.started = started_;
  inputs.insecure = options_.insecure;
  inputs.held = !engine_.held().empty();
  inputs.ingest = ingest_.counts();
  inputs.engine = engine_.stats();
  inputs.database_bytes = {{"state", DatabaseBytes(options_.data_dir + "/state.db")},
                           {"history", DatabaseBytes(options_.data_dir + "/history.db")},
                           {"metrics", DatabaseBytes(options_.data_dir + "/metrics.db")}};
  inputs.resident_bytes = ResidentBytes();
  if (options_.backups) inputs.backups = options_.backups();
  if (options_.certificate_end) inputs.certificate_end = options_.certificate_end();
  if (options_.closed_connections) inputs.closed_connections = options_.closed_connections();
  inputs.checkpoint_rules = &checkpoint_rules_;
  return CollectSeries(*snapshot, inputs, families_);
}

}  // namespace muster::controller
