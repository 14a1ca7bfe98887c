// Stands in for libnvidia-ml.so.1: two GPUs, the second of which tells nothing but its name, UUID
// and memory. The first has drawn 100 J before it is asked, and draws 0.5 J at each question.
#include <stdio.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {
struct Memory {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned gpu, memory;
};
intptr_t Index(void* device) { return reinterpret_cast<intptr_t>(device) - 1; }
int OnlyFirst(void* device) { return Index(device) == 0 ? 0 : 3; }
bool lost = false;
bool no_temperature = false;
}  // namespace

extern "C" {
// For tests: from now on the first GPU cannot be read, or does not tell its temperature.
void FakeNvmlLoseFirst() { lost = true; }
void FakeNvmlHideTemperature() { no_temperature = true; }

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = reinterpret_cast<void*>(static_cast<intptr_t>(index) + 1);
  return 0;
}
int nvmlDeviceGetName(void*, char* name, unsigned bytes) {
  ::snprintf(name, bytes, "Fake GPU");
  return 0;
}
int nvmlDeviceGetUUID(void* device, char* uuid, unsigned bytes) {
  ::snprintf(uuid, bytes, "GPU-%d", static_cast<int>(Index(device)));
  return 0;
}
int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  *memory = {80, 50, 30};
  return lost && Index(device) == 0 ? 15 : 0;
}
int nvmlDeviceGetUtilizationRates(void* device, Utilization* utilization) {
  *utilization = {25, 10};
  return OnlyFirst(device);
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  *milliwatts = 350'500;
  return OnlyFirst(device);
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  if (::strncmp(uuid, "GPU-", 4) != 0) return 6;
  return nvmlDeviceGetHandleByIndex_v2(::atoi(uuid + 4), device);
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  static unsigned long long drawn = 99'500;
  if (OnlyFirst(device) == 0) drawn += 500;
  *millijoules = drawn;
  return OnlyFirst(device);
}
int nvmlDeviceGetTemperature(void* device, int, unsigned* celsius) {
  *celsius = 61;
  return no_temperature ? 3 : OnlyFirst(device);
}
}
