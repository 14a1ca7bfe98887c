#include "worker/agent/device/nvml.h"

#include <dlfcn.h>

#include <utility>

#include "common/base/log.h"

namespace muster::worker {
namespace {

// NVML's stable C interface, as far as it is used here (nvml.h of CUDA 11 and later).
using Result = int;
constexpr Result kSuccess = 0;
constexpr unsigned kNameBytes = 96;
constexpr int kTemperatureOfGpu = 0;
using Device = struct DeviceTag*;
struct Memory {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned gpu, memory;
};

template <typename Function>
bool Bind(void* library, const char* name, Function* out) {
  *out = reinterpret_cast<Function>(::dlsym(library, name));
  return *out != nullptr;
}

}  // namespace

struct Nvml::Functions {
  Result (*init)() = nullptr;
  Result (*shutdown)() = nullptr;
  Result (*count)(unsigned*) = nullptr;
  Result (*handle)(unsigned, Device*) = nullptr;
  Result (*name)(Device, char*, unsigned) = nullptr;
  Result (*uuid)(Device, char*, unsigned) = nullptr;
  Result (*memory)(Device, Memory*) = nullptr;
  Result (*utilization)(Device, Utilization*) = nullptr;
  Result (*power)(Device, unsigned*) = nullptr;
  Result (*temperature)(Device, int, unsigned*) = nullptr;
  // Null in older drivers.
  Result (*handle_by_uuid)(const char*, Device*) = nullptr;
  Result (*energy)(Device, unsigned long long*) = nullptr;  // millijoules
};

std::unique_ptr<Nvml> Nvml::Load(const char* name) {
  void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  auto functions = std::make_unique<Functions>();
  Functions& f = *functions;
  const bool whole =
      Bind(library, "nvmlInit_v2", &f.init) && Bind(library, "nvmlShutdown", &f.shutdown) &&
      Bind(library, "nvmlDeviceGetCount_v2", &f.count) &&
      Bind(library, "nvmlDeviceGetHandleByIndex_v2", &f.handle) &&
      Bind(library, "nvmlDeviceGetName", &f.name) && Bind(library, "nvmlDeviceGetUUID", &f.uuid) &&
      Bind(library, "nvmlDeviceGetMemoryInfo", &f.memory) &&
      Bind(library, "nvmlDeviceGetUtilizationRates", &f.utilization) &&
      Bind(library, "nvmlDeviceGetPowerUsage", &f.power) &&
      Bind(library, "nvmlDeviceGetTemperature", &f.temperature);
  Bind(library, "nvmlDeviceGetHandleByUUID", &f.handle_by_uuid);
  Bind(library, "nvmlDeviceGetTotalEnergyConsumption", &f.energy);
  const Result started = whole ? f.init() : -1;
  if (started != kSuccess) {
    Log(LogLevel::kWarning, "nvml_unusable", {{"library", name}, {"result", started}});
    ::dlclose(library);
    return nullptr;
  }
  return std::unique_ptr<Nvml>(new Nvml(library, std::move(functions)));
}

Nvml::Nvml(void* library, std::unique_ptr<Functions> functions)
    : library_(library), functions_(std::move(functions)) {}

Nvml::~Nvml() {
  functions_->shutdown();
  ::dlclose(library_);
}

std::vector<GpuReading> Nvml::Read() const {
  std::vector<GpuReading> readings;
  unsigned count = 0;
  if (functions_->count(&count) != kSuccess) return readings;
  for (unsigned i = 0; i < count; ++i) {
    Device device = nullptr;
    char name[kNameBytes] = {};
    char uuid[kNameBytes] = {};
    Memory memory = {};
    if (functions_->handle(i, &device) != kSuccess ||
        functions_->name(device, name, sizeof name) != kSuccess ||
        functions_->uuid(device, uuid, sizeof uuid) != kSuccess ||
        functions_->memory(device, &memory) != kSuccess) {
      continue;
    }
    GpuReading reading;
    reading.name = name;
    reading.uuid = uuid;
    reading.memory_bytes = memory.total;
    reading.memory_used_bytes = memory.used;
    Utilization utilization = {};
    if (functions_->utilization(device, &utilization) == kSuccess) {
      reading.utilization_ratio = utilization.gpu / 100.0;
    }
    unsigned value = 0;
    if (functions_->power(device, &value) == kSuccess) reading.power_watts = value / 1000.0;
    if (functions_->temperature(device, kTemperatureOfGpu, &value) == kSuccess) {
      reading.temperature_celsius = value;
    }
    readings.push_back(std::move(reading));
  }
  return readings;
}

std::optional<double> Nvml::EnergyJoules(const std::string& uuid) const {
  if (functions_->handle_by_uuid == nullptr || functions_->energy == nullptr) return std::nullopt;
  Device device = nullptr;
  unsigned long long millijoules = 0;
  if (functions_->handle_by_uuid(uuid.c_str(), &device) != kSuccess ||
      functions_->energy(device, &millijoules) != kSuccess) {
    return std::nullopt;
  }
  return static_cast<double>(millijoules) / 1000;
}

}  // namespace muster::worker
