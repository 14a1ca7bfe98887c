// What the GPUs behind an agent's slots have drawn, by the driver's own counters. One thread at a
// time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/v1/common.pb.h"
#include "worker/agent/device/nvml.h"

namespace muster::worker {

class EnergyMeter {
 public:
  // `nvml` outlives this, and may be null.
  EnergyMeter(const Nvml* nvml, const std::vector<v1::Slot>& slots);

  // Joules, all of these slots together, since a moment that stays the same: take differences.
  // Nothing when one of them is no GPU, or is one that does not count (before Volta).
  std::optional<double> Joules(const std::vector<uint32_t>& slots) const;

 private:
  const Nvml* const nvml_;
  std::map<uint32_t, std::string> uuids_;  // of the GPUs, by slot
};

}  // namespace muster::worker
