#include "worker/agent/device/nvml.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <optional>
#include <string>
#include <vector>

#include "worker/agent/device/energy_meter.h"

namespace muster::worker {
namespace {

TEST(Nvml, AMachineWithoutTheDriverHasNoGpus) {
  EXPECT_EQ(Nvml::Load("libno-such-driver.so.1"), nullptr);
}

TEST(Nvml, ALibraryThatIsAnotherThingIsNotUsed) { EXPECT_EQ(Nvml::Load("libc.so.6"), nullptr); }

TEST(Nvml, ReadsWhatTheDriverTellsAndOnlyThat) {
  const auto nvml = Nvml::Load(FAKE_NVML);
  ASSERT_NE(nvml, nullptr);
  const std::vector<GpuReading> gpus = nvml->Read();
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].name, "Fake GPU");
  EXPECT_EQ(gpus[0].uuid, "GPU-0");
  EXPECT_EQ(gpus[0].memory_bytes, 80u);
  EXPECT_EQ(gpus[0].memory_used_bytes, 30u);
  EXPECT_EQ(gpus[0].utilization_ratio, 0.25);
  EXPECT_EQ(gpus[0].power_watts, 350.5);
  EXPECT_EQ(gpus[0].temperature_celsius, 61.0);
  EXPECT_EQ(gpus[1].uuid, "GPU-1");
  EXPECT_FALSE(gpus[1].utilization_ratio || gpus[1].power_watts || gpus[1].temperature_celsius);
}

TEST(EnergyMeter, CountsTheGpusOfTheSlotsThatAreAskedAbout) {
  const auto nvml = Nvml::Load(FAKE_NVML);
  ASSERT_NE(nvml, nullptr);
  std::vector<v1::Slot> slots(3);
  for (uint32_t i = 0; i < 2; ++i) {
    slots[i].set_index(i + 4);
    slots[i].set_kind(v1::GPU);
    slots[i].set_uuid("GPU-" + std::to_string(i));
  }
  slots[2].set_index(6);
  slots[2].set_kind(v1::CPU);
  const EnergyMeter meter(nvml.get(), slots);
  EXPECT_EQ(meter.Joules({4}), 100.0);
  EXPECT_EQ(meter.Joules({4}), 100.5);
  EXPECT_EQ(meter.Joules({4, 4}), 101.0 + 101.5);
  EXPECT_EQ(meter.Joules({4, 5}), std::nullopt) << "the second does not tell";
  EXPECT_EQ(meter.Joules({4, 6}), std::nullopt) << "a CPU's";
  EXPECT_EQ(meter.Joules({7}), std::nullopt) << "no such slot";
  EXPECT_EQ(meter.Joules({}), std::nullopt);
  EXPECT_EQ(EnergyMeter(nullptr, slots).Joules({4}), std::nullopt);
}

}  // namespace
}  // namespace muster::worker
