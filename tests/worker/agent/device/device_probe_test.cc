#include "worker/agent/device/device_probe.h"

#include <filesystem>
#include <fstream>

#include "common/os/loopback.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

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

TEST(Slots, AreOfTheGpusThatTheAgentsOwnEnvironmentShows) {
  const std::vector<GpuReading> gpus = {{.uuid = "GPU-a1"}, {.uuid = "GPU-b2"}, {.uuid = "GPU-c3"}};
  const auto shown = [&](const char* visible) {
    std::vector<std::string> uuids;
    for (const GpuReading& gpu : VisibleGpus(gpus, visible)) uuids.push_back(gpu.uuid);
    return uuids;
  };
  using Uuids = std::vector<std::string>;
  EXPECT_EQ(shown(nullptr), (Uuids{"GPU-a1", "GPU-b2", "GPU-c3"}));
  EXPECT_EQ(shown("2,0"), (Uuids{"GPU-c3", "GPU-a1"}));
  EXPECT_EQ(shown("GPU-b2, 0"), (Uuids{"GPU-b2", "GPU-a1"}));
  EXPECT_EQ(shown("GPU-c"), (Uuids{"GPU-c3"}));
  EXPECT_EQ(shown("1,1"), (Uuids{"GPU-b2"}));
  for (const char* none : {"", "-1", "NoDevFiles", "3", "MIG-a1", "99999999999", "x,0"}) {
    EXPECT_EQ(shown(none), Uuids{}) << none;
  }
  EXPECT_EQ(shown("1,7,0"), (Uuids{"GPU-b2"})) << "CUDA stops at what it does not know";
}

TEST(Memory, IsBoundedByEachCgroupAbove) {
  const testing::TempDir folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  };
  const std::string cgroups = folder / "cgroup";
  const std::string mount = folder / "mount";
  write("cgroup", "1:name=systemd:/\n0::/slurm/job_7/step_0\n");
  EXPECT_EQ(CgroupMemoryBytes(cgroups, mount), std::nullopt);
  write("mount/slurm/job_7/step_0/memory.max", "max\n");
  EXPECT_EQ(CgroupMemoryBytes(cgroups, mount), std::nullopt);
  write("mount/slurm/job_7/memory.max", "64000\n");
  write("mount/slurm/memory.max", "90000\n");
  EXPECT_EQ(CgroupMemoryBytes(cgroups, mount), 64000u);
  write("mount/memory.max", "5000\n");
  EXPECT_EQ(CgroupMemoryBytes(cgroups, mount), 5000u);
  write("cgroup", "0::/\n");
  EXPECT_EQ(CgroupMemoryBytes(cgroups, mount), 5000u);
  write("cgroup", "");
  EXPECT_EQ(CgroupMemoryBytes(cgroups, mount), std::nullopt);
  EXPECT_EQ(CgroupMemoryBytes(folder / "none", mount), std::nullopt);
}

TEST(Addresses, LoopbackStaysLoopback) {
  EXPECT_TRUE(IsLoopback("127.1.2.3"));
  EXPECT_FALSE(IsLoopback("10.0.0.1"));
  ASSERT_OK_AND_ASSIGN(const std::string address, AddressTowards("localhost"));
  EXPECT_EQ(address, "127.0.0.1");
  EXPECT_THAT(AddressTowards("no such host"), StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace muster::worker
