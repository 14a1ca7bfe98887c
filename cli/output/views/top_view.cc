#include "cli/output/views/top_view.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/output/table.h"
#include "cli/output/text.h"
#include "cli/output/views/views.h"
#include "common/base/units.h"

namespace muster::cli {
namespace {

constexpr double kGib = 1ull << 30;

std::string Plural(size_t count, const char* noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

std::string CpuText(const v1::WorkerInfo& worker) {
  if (!worker.has_use()) return absl::StrCat("?/", worker.cpus());
  return absl::StrFormat("%.1f/%d", worker.use().cpus(), worker.cpus());
}

std::string MemoryText(const v1::WorkerInfo& worker) {
  const double all = static_cast<double>(worker.memory_bytes()) / kGib;
  if (!worker.has_use()) return absl::StrFormat("?/%.1f GiB", all);
  return absl::StrFormat("%.1f/%.1f GiB", static_cast<double>(worker.use().memory_bytes()) / kGib,
                         all);
}

// How busy the GPUs are, and how full.
std::string GpuText(const v1::WorkerInfo& worker) {
  if (worker.use().gpus().empty()) return "";
  double busy = 0, bytes = 0, all = 0;
  for (const v1::WorkerUse::Gpu& gpu : worker.use().gpus()) {
    busy += gpu.utilization() / worker.use().gpus_size();
    bytes += static_cast<double>(gpu.memory_bytes());
    for (const v1::Slot& slot : worker.slots()) {
      if (slot.index() == gpu.slot()) all += static_cast<double>(slot.memory_bytes());
    }
  }
  return absl::StrFormat("%.0f%% %.0f/%.0f GiB", 100 * busy, bytes / kGib, all / kGib);
}

bool HasGpus(const std::vector<v1::WorkerInfo>& workers) {
  return std::any_of(workers.begin(), workers.end(),
                     [](const v1::WorkerInfo& worker) { return !worker.use().gpus().empty(); });
}

// Where most is held first.
std::vector<v1::WorkerInfo> ByUse(std::vector<v1::WorkerInfo> workers) {
  std::stable_sort(workers.begin(), workers.end(),
                   [](const v1::WorkerInfo& a, const v1::WorkerInfo& b) {
                     return a.slots_used() > b.slots_used();
                   });
  return workers;
}

Table Workers(const std::vector<v1::WorkerInfo>& workers, size_t most) {
  const bool gpus = HasGpus(workers);
  std::vector<Column> columns = {
      {"WORKER", false, true}, {"STATE"}, {"SLOTS", true}, {"CPUS", true}, {"MEMORY", true}};
  if (gpus) columns.push_back({"GPUS", true});
  columns.push_back({"JOBS", false, true});
  Table table(std::move(columns));
  size_t rows = 0;
  for (const v1::WorkerInfo& worker : workers) {
    if (most != 0 && rows++ == most) break;
    std::vector<std::string> cells = {worker.name(), worker.state(),
                                      absl::StrCat(worker.slots_used(), "/", worker.slots_size()),
                                      CpuText(worker), MemoryText(worker)};
    if (gpus) cells.push_back(GpuText(worker));
    cells.push_back(absl::StrJoin(worker.job_ids(), ","));
    table.Add(std::move(cells));
  }
  return table;
}

Table JobTable(const std::vector<v1::JobSummary>& jobs, absl::Time now, size_t most) {
  Table table({{"JOB", true},
               {"NAME", false, true},
               {"STATE"},
               {"RANKS", true},
               {"STEP", true},
               {"LOSS", true},
               {"RATE", true},
               {"MEMORY", true},
               {"RUNS", true},
               {"WORKERS", false, true}});
  size_t rows = 0;
  for (const v1::JobSummary& job : jobs) {
    if (most != 0 && rows++ == most) break;
    const auto value = [](bool has, double number) {
      return has ? std::optional<double>(number) : std::nullopt;
    };
    table.Add(
        {JobIdText(job), job.name(), v1::JobState_Name(job.state()), absl::StrCat(job.ranks()),
         StepText(job), Number(value(job.has_loss(), job.loss())),
         job.has_samples_per_second() ? absl::StrCat(Number(job.samples_per_second()), "/s") : "",
         Bytes(value(job.has_memory_bytes(), job.memory_bytes())), Age(now, job.started_ms()),
         absl::StrJoin(job.workers(), ",")});
  }
  return table;
}

void Append(const Table& table, size_t all, size_t most, const char* noun, size_t width,
            std::vector<std::string>& lines) {
  for (const absl::string_view line :
       absl::StrSplit(table.Render(true, width), '\n', absl::SkipEmpty())) {
    lines.emplace_back(line);
  }
  if (most != 0 && all > most) lines.push_back(absl::StrCat("and ", Plural(all - most, noun)));
}

}  // namespace

std::vector<std::string> TopLines(const TopPicture& picture, absl::Time now, size_t width,
                                  size_t most_rows) {
  uint64_t used = 0, slots = 0;
  for (const v1::WorkerInfo& worker : picture.workers) {
    used += worker.slots_used();
    slots += static_cast<uint64_t>(worker.slots_size());
  }
  std::vector<std::string> lines = {absl::StrCat(
      Plural(picture.workers.size(), "worker"), ", ", used, " of ", Plural(slots, "slot"),
      " held; ", Plural(picture.jobs.size(), "job"), " on them, ", picture.waiting,
      picture.more_waiting ? " or more" : "", " waiting")};
  if (!picture.workers.empty()) {
    lines.emplace_back();
    const std::vector<v1::WorkerInfo> workers = ByUse(picture.workers);
    Append(Workers(workers, most_rows), workers.size(), most_rows, "further worker", width, lines);
  }
  if (!picture.jobs.empty()) {
    lines.emplace_back();
    Append(JobTable(picture.jobs, now, most_rows), picture.jobs.size(), most_rows, "further job",
           width, lines);
  }
  for (std::string& line : lines) line = CutTo(Plain(line), width);
  return lines;
}

}  // namespace muster::cli
