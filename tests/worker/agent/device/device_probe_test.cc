#include "worker/agent/device/device_probe.h"

#include "tests/support/status_matchers.h"

namespace muster::worker {
namespace {

using ::muster::testing::StatusIs;

TEST(Slots, AreGpusWhereThereAreSomeElseCores) {
  const std::vector<GpuReading> gpus = {{.name = "H100", .uuid = "GPU-1", .memory_bytes = 80}};
  EXPECT_EQ(MakeSlots({}, std::nullopt, 4, 400).size(), 4u);
  EXPECT_EQ(MakeSlots({}, std::nullopt, 4, 400)[3].memory_bytes(), 100u);
  EXPECT_EQ(MakeSlots({}, 1, 4, 400).size(), 1u);
  const auto mixed = MakeSlots(gpus, 2, 4, 400);
  ASSERT_EQ(mixed.size(), 3u);
  EXPECT_EQ(mixed[0].kind(), v1::GPU);
  EXPECT_EQ(mixed[0].uuid(), "GPU-1");
  EXPECT_EQ(mixed[2].kind(), v1::CPU);
  EXPECT_EQ(mixed[2].index(), 2u);
  EXPECT_EQ(MakeSlots(gpus, std::nullopt, 4, 400).size(), 1u);
}

TEST(Addresses, LoopbackStaysLoopback) {
  EXPECT_TRUE(IsLoopbackHost("127.1.2.3"));
  EXPECT_FALSE(IsLoopbackHost("10.0.0.1"));
  ASSERT_OK_AND_ASSIGN(const std::string address, AddressTowards("localhost"));
  EXPECT_EQ(address, "127.0.0.1");
  EXPECT_THAT(AddressTowards("no such host"), StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace muster::worker
