#include "worker/agent/device/energy_meter.h"

namespace muster::worker {

EnergyMeter::EnergyMeter(const Nvml* nvml, const std::vector<v1::Slot>& slots) : nvml_(nvml) {
  for (const v1::Slot& slot : slots) {
    if (slot.kind() == v1::GPU) uuids_[slot.index()] = slot.uuid();
  }
}

std::optional<double> EnergyMeter::Joules(const std::vector<uint32_t>& slots) const {
  if (nvml_ == nullptr || slots.empty()) return std::nullopt;
  double sum = 0;
  for (const uint32_t slot : slots) {
    const auto uuid = uuids_.find(slot);
    if (uuid == uuids_.end()) return std::nullopt;
    const std::optional<double> joules = nvml_->EnergyJoules(uuid->second);
    if (!joules.has_value()) return std::nullopt;
    sum += *joules;
  }
  return sum;
}

}  // namespace muster::worker
