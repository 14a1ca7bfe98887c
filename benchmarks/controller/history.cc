// Fills the databases of a musterd that does not run as years of work would have, and prints one
// JSON line: history.db with copies of the last job of its state.db, which has ended; metrics.db
// with points of job 1, as one rank reports them, eight names a step.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "benchmarks/controller/measure.h"
#include "controller/store/history/history_store.h"
#include "controller/store/metrics/metrics_store.h"
#include "controller/store/state_store.h"

namespace muster::benchmarks {
namespace {

using controller::ArchivedJob;
using controller::Checkpoint;
using controller::Job;
using controller::JobEvent;
using controller::JobSettings;

constexpr size_t kJobsATransaction = 1000;

template <typename T>
T OrThrow(absl::StatusOr<T> value) {
  if (!value.ok()) throw std::runtime_error(value.status().ToString());
  return *std::move(value);
}

controller::SqliteOptions FileIn(const std::string& folder, const char* name) {
  controller::SqliteOptions options;
  options.path = absl::StrCat(folder, "/", name);
  return options;
}

// The job of the highest id, as it is in memory.
std::shared_ptr<const Job> LastJob(const std::string& folder) {
  const auto store = OrThrow(controller::StateStore::Open(FileIn(folder, "state.db")));
  const auto snapshot = OrThrow(store->Load(1, absl::ZeroDuration(), absl::Now()));
  std::shared_ptr<const Job> last;
  snapshot.jobs.ForEach([&](const Job& job) { last = snapshot.jobs.Share(job.id); });
  if (last == nullptr || !controller::IsTerminal(last->state)) {
    throw std::runtime_error("state.db has no job that ended last");
  }
  return last;
}

// The same job once more, `before` earlier, with ids and sequences of its own.
ArchivedJob CopyOf(const Job& job, uint64_t id, absl::Duration before) {
  auto copy = std::make_shared<Job>(job);
  copy->id = id;
  copy->idempotency_key = absl::StrCat("key-", id);
  auto settings = std::make_shared<JobSettings>(*job.settings);
  settings->name = absl::StrCat("history-", id);
  copy->settings = std::move(settings);
  copy->submitted -= before;
  copy->started -= before;
  copy->finished -= before;
  copy->ledger.until -= before;
  if (copy->current != nullptr) {
    auto attempt = std::make_shared<controller::Attempt>(*copy->current);
    attempt->job_id = id;
    copy->current = std::move(attempt);
  }
  copy->past.clear();
  copy->checkpoints.clear();
  uint64_t sequence = id * job.events.size();
  for (auto& row : copy->events) {
    auto event = std::make_shared<JobEvent>(*row);
    event->job_id = id;
    event->sequence = sequence++;
    event->at -= before;
    row = std::move(event);
  }
  return {.job = std::move(copy), .checkpoints = {}};
}

void Fill(const std::string& folder, uint64_t jobs) {
  const auto began = std::chrono::steady_clock::now();
  const std::shared_ptr<const Job> job = LastJob(folder);
  const auto history = OrThrow(controller::HistoryStore::Open(FileIn(folder, "history.db")));
  const uint64_t first = job->id + 1;
  std::vector<ArchivedJob> batch;
  for (uint64_t i = 0; i < jobs; ++i) {
    batch.push_back(CopyOf(*job, first + i, absl::Hours(2) + absl::Seconds(jobs - i)));
    if (batch.size() < kJobsATransaction && i + 1 < jobs) continue;
    OrThrow(history->Put(batch));
    batch.clear();
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  PrintLine({{"load", "history"},
             {"jobs", history->jobs()},
             {"events_a_job", job->events.size()},
             {"seconds", took.count()}});
}

void FillPoints(const std::string& folder, uint64_t points) {
  constexpr uint64_t kStepsABatch = 100;
  const auto began = std::chrono::steady_clock::now();
  auto store = OrThrow(controller::MetricsStore::Open(absl::StrCat(folder, "/metrics.db")));
  store->SetPointBudget(uint64_t{1} << 40);
  const std::vector<std::string> names = {"loss",         "lr",
                                          "grad_norm",    "step_seconds",
                                          "data_seconds", "samples_per_second",
                                          "memory_bytes", "memory_peak_bytes"};
  controller::IngestCounts counts;
  uint64_t seq = 0;
  while (seq * names.size() < points) {
    controller::MetricsBatch batch;
    for (uint64_t i = 0; i < kStepsABatch; ++i) {
      const auto step = static_cast<int64_t>(seq++);
      controller::PointRecord record{.key = {1, 1, 1, 0}, .seq = seq, .points = {}};
      for (const std::string& name : names) {
        record.points.push_back({name, step, step, 1.0 / static_cast<double>(seq)});
      }
      batch.points.push_back(std::move(record));
    }
    // It becomes one row of points: some 800, as in M1.
    if (absl::Status status = store->Append({&batch}, counts); !status.ok()) {
      throw std::runtime_error(status.ToString());
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  PrintLine({{"load", "points"}, {"points", counts.points}, {"seconds", took.count()}});
}

}  // namespace
}  // namespace muster::benchmarks

int main(int argc, char** argv) {
  CLI::App app("Fills history.db with jobs that have ended, or metrics.db with points");
  std::string folder;
  uint64_t jobs = 0;
  uint64_t points = 0;
  app.add_option("--data-dir", folder, "of a musterd that does not run")->required();
  app.add_option("--jobs", jobs);
  app.add_option("--points", points);
  CLI11_PARSE(app, argc, argv);
  try {
    if (jobs > 0) muster::benchmarks::Fill(folder, jobs);
    if (points > 0) muster::benchmarks::FillPoints(folder, points);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "muster-bench-history: %s\n", error.what());
    return 1;
  }
  return 0;
}
