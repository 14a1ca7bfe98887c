#include "worker/agent/device/use_probe.h"

#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace muster::worker {
namespace {

std::string ReadProc(const char* path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

std::optional<CpuTicks> ParseCpuTicks(absl::string_view stat) {
  // cpu user nice system idle iowait irq softirq steal ...
  constexpr size_t kIdle = 4, kWaiting = 5, kLast = 8;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(stat.substr(0, stat.find('\n')), ' ', absl::SkipEmpty());
  if (fields.size() <= kWaiting || fields[0] != "cpu") return std::nullopt;
  CpuTicks ticks;
  for (size_t i = 1; i < fields.size() && i <= kLast; ++i) {
    uint64_t value = 0;
    if (!absl::SimpleAtoi(fields[i], &value)) return std::nullopt;
    ticks.all += value;
    if (i != kIdle && i != kWaiting) ticks.busy += value;
  }
  return ticks;
}

std::optional<uint64_t> ParseMemoryInUse(absl::string_view meminfo) {
  std::optional<uint64_t> total, available;
  for (const absl::string_view line : absl::StrSplit(meminfo, '\n')) {
    const std::vector<absl::string_view> fields =
        absl::StrSplit(line, absl::ByAnyChar(" :"), absl::SkipEmpty());
    uint64_t kib = 0;
    if (fields.size() < 2 || !absl::SimpleAtoi(fields[1], &kib)) continue;
    if (fields[0] == "MemTotal") total = kib << 10;
    if (fields[0] == "MemAvailable") available = kib << 10;
  }
  if (!total || !available || *available > *total) return std::nullopt;
  return *total - *available;
}

v1::WorkerUse UseProbe::Read(uint32_t cpus) {
  v1::WorkerUse use;
  const std::optional<CpuTicks> now = ParseCpuTicks(ReadProc("/proc/stat"));
  if (now && last_ && now->all > last_->all && now->busy >= last_->busy) {
    use.set_cpus(cpus * static_cast<double>(now->busy - last_->busy) /
                 static_cast<double>(now->all - last_->all));
  }
  last_ = now;
  use.set_memory_bytes(ParseMemoryInUse(ReadProc("/proc/meminfo")).value_or(0));
  return use;
}

}  // namespace muster::worker
