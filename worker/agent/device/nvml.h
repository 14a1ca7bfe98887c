// The machine's GPUs as NVIDIA's driver sees them. Loads libnvidia-ml.so.1 at run time; a machine
// without it has no GPUs. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace muster::worker {

struct GpuReading {
  std::string name;
  std::string uuid;  // "GPU-..."
  uint64_t memory_bytes = 0;
  uint64_t memory_used_bytes = 0;
  // Nothing where the driver does not tell.
  std::optional<double> utilization_ratio;
  std::optional<double> power_watts;
  std::optional<double> temperature_celsius;
};

class Nvml {
 public:
  // nullptr when there is no driver, or it does not start.
  static std::unique_ptr<Nvml> Load(const char* library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // In the driver's order; a GPU that cannot be read is left out.
  std::vector<GpuReading> Read() const;
  // What the GPU has drawn since its driver was loaded; nothing where the driver does not tell.
  std::optional<double> EnergyJoules(const std::string& uuid) const;

 private:
  struct Functions;
  Nvml(void* library, std::unique_ptr<Functions> functions);

  void* const library_;
  const std::unique_ptr<Functions> functions_;
};

}  // namespace muster::worker
