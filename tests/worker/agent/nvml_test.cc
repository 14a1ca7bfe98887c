#include "worker/agent/nvml.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>

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

}  // namespace
}  // namespace muster::worker
