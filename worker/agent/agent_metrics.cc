#include "worker/agent/agent_metrics.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/metrics/metric_names.h"
#include "worker/agent/device/device_probe.h"

namespace muster::worker {
namespace {

// The driver takes its time to answer: GPUs are read at every so many refreshes.
constexpr uint64_t kRefreshesPerGpuReading = 5;

const char* KindName(v1::SlotKind kind) { return kind == v1::GPU ? "gpu" : "cpu"; }

std::vector<std::string> Labels(const v1::Slot& slot) {
  return {absl::StrCat(slot.index()), KindName(slot.kind()), slot.device()};
}

}  // namespace

AgentMetrics::AgentMetrics(MetricFamilies& families, Clock& clock, const Nvml* nvml,
                           const v1::Hello& hello)
    : families_(families),
      nvml_(nvml),
      slots_(hello.slots().begin(), hello.slots().end()),
      cpus_(hello.cpus()) {
  for (const MetricDef* metric : WorkerMetrics()) {
    const bool is_counter = metric->type == MetricType::kCounter;
    if (is_counter && metric->labels[0] == nullptr) families_.Add(*metric, 0);
  }
  families_.Set(metric::kWorkerInfo, {hello.worker_name(), hello.pool(), hello.version()}, 1);
  families_.Set(metric::kWorkerStartTime, absl::ToDoubleSeconds(clock.Now() - absl::UnixEpoch()));
  families_.Set(metric::kWorkerMachineMemoryBytes, static_cast<double>(hello.memory_bytes()));
  families_.Set(metric::kWorkerCpus, hello.cpus());
  families_.Set(metric::kWorkerConnected, 0);
  std::map<std::string, double> by_kind;
  for (const v1::Slot& slot : slots_) {
    ++by_kind[KindName(slot.kind())];
    families_.Set(metric::kDeviceMemorySizeBytes, Labels(slot),
                  static_cast<double>(slot.memory_bytes()));
  }
  for (const auto& [kind, count] : by_kind) families_.Set(metric::kWorkerSlots, {kind}, count);
}

void AgentMetrics::Refresh(const Spool& spool, const std::set<uint32_t>& busy_slots) {
  families_.Set(metric::kWorkerResidentBytes, static_cast<double>(ResidentBytes()));
  families_.Set(metric::kWorkerSpoolBytes, static_cast<double>(spool.pending_bytes()));
  families_.Set(metric::kWorkerSpoolLimitBytes, static_cast<double>(spool.max_bytes()));
  families_.Add(metric::kWorkerSpoolDroppedTotal,
                static_cast<double>(spool.dropped_records() - dropped_seen_));
  dropped_seen_ = spool.dropped_records();
  std::map<std::string, double> used;
  for (const v1::Slot& slot : slots_) {
    const bool held = busy_slots.contains(slot.index());
    used[KindName(slot.kind())] += held ? 1 : 0;
    families_.Set(metric::kDeviceHeld, Labels(slot), held ? 1 : 0);
  }
  for (const auto& [kind, count] : used) families_.Set(metric::kWorkerSlotsUsed, {kind}, count);
  const v1::WorkerUse use = use_probe_.Read(cpus_);
  use_.set_cpus(use.cpus());
  use_.set_memory_bytes(use.memory_bytes());
  if (nvml_ != nullptr && refreshes_++ % kRefreshesPerGpuReading == 0) RefreshGpus();
}

void AgentMetrics::RefreshGpus() {
  use_.clear_gpus();
  const std::vector<GpuReading> readings = nvml_->Read();
  for (const v1::Slot& slot : slots_) {
    if (slot.kind() != v1::GPU) continue;
    const auto found = std::find_if(readings.begin(), readings.end(),
                                    [&](const GpuReading& gpu) { return gpu.uuid == slot.uuid(); });
    GpuReading gpu;  // of one that cannot be read: it tells nothing
    std::optional<double> memory_used;
    if (found != readings.end()) {
      gpu = *found;
      memory_used = static_cast<double>(gpu.memory_used_bytes);
      v1::WorkerUse::Gpu& use = *use_.add_gpus();
      use.set_slot(slot.index());
      use.set_utilization(gpu.utilization_ratio.value_or(0));
      use.set_memory_bytes(gpu.memory_used_bytes);
    }
    ShowReading(metric::kDeviceMemoryUsedBytes, slot, memory_used);
    ShowReading(metric::kDeviceUtilizationRatio, slot, gpu.utilization_ratio);
    ShowReading(metric::kDevicePowerWatts, slot, gpu.power_watts);
    ShowReading(metric::kDeviceTemperature, slot, gpu.temperature_celsius);
  }
}

void AgentMetrics::ShowReading(const MetricDef& metric, const v1::Slot& slot,
                               std::optional<double> value) {
  if (value.has_value()) {
    families_.Set(metric, Labels(slot), *value);
  } else {
    families_.Remove(metric, Labels(slot));
  }
}

}  // namespace muster::worker
