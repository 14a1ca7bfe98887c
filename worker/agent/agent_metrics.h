// Keeps the gauges of the agent itself, its slots and its GPUs up to date. Ranks and session count
// their own.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/metrics/metric_families.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/agent/device/nvml.h"
#include "worker/agent/device/use_probe.h"
#include "worker/agent/telemetry/spool.h"

namespace muster::worker {

class AgentMetrics {
 public:
  // All outlive this; `nvml` may be null. `hello` names worker, pool, version and slots.
  AgentMetrics(MetricFamilies& families, Clock& clock, const Nvml* nvml, const v1::Hello& hello);

  // Cheap; call about once a second.
  void Refresh(const Spool& spool, const std::set<uint32_t>& busy_slots);
  // What of the machine was in use at the last refresh.
  const v1::WorkerUse& use() const { return use_; }

 private:
  void RefreshGpus();
  // Without a value the page has none of this slot, instead of the last one for ever.
  void ShowReading(const MetricDef& metric, const v1::Slot& slot, std::optional<double> value);

  MetricFamilies& families_;
  const Nvml* const nvml_;
  const std::vector<v1::Slot> slots_;
  const uint32_t cpus_;
  UseProbe use_probe_;
  v1::WorkerUse use_;
  uint64_t dropped_seen_ = 0;
  uint64_t refreshes_ = 0;
};

}  // namespace muster::worker
