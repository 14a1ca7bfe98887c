#include "worker/agent/device/use_probe.h"

#include <gtest/gtest.h>

namespace muster::worker {
namespace {

TEST(ParseCpuTicks, SumsWhatIsBusy) {
  const auto ticks = ParseCpuTicks("cpu  10 20 30 400 50 1 2 3 99 99\ncpu0 1 1 1 1 1 1 1 1 1 1\n");
  ASSERT_TRUE(ticks.has_value());
  EXPECT_EQ(ticks->busy, 66u) << "guests' time is in their hosts' already";
  EXPECT_EQ(ticks->all, 516u);
  EXPECT_FALSE(ParseCpuTicks("").has_value());
  EXPECT_FALSE(ParseCpuTicks("cpu 1 2\n").has_value());
  EXPECT_FALSE(ParseCpuTicks("cpu a b c d e f g h\n").has_value());
}

TEST(ParseMemoryInUse, IsWhatIsNotAvailable) {
  const auto bytes =
      ParseMemoryInUse("MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    400 kB\n");
  EXPECT_EQ(bytes, 600u << 10);
  EXPECT_FALSE(ParseMemoryInUse("MemTotal: 1000 kB\n").has_value());
  EXPECT_FALSE(ParseMemoryInUse("").has_value());
}

TEST(UseProbe, ReadsThisMachine) {
  UseProbe probe;
  EXPECT_EQ(probe.Read(4).cpus(), 0) << "nothing to compare with yet";
  const v1::WorkerUse use = probe.Read(4);
  EXPECT_GT(use.memory_bytes(), 0u);
  EXPECT_LE(use.cpus(), 4);
}

}  // namespace
}  // namespace muster::worker
