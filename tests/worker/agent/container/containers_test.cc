// What Containers does before any runtime is called; agent_container_test has the rest.
#include "worker/agent/container/containers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <thread>

#include "common/base/clock.h"
#include "tests/support/hung_mount.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/agent/side_jobs.h"
#include "worker/agent/base/event_loop.h"

namespace muster::worker {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::TempDir;

TEST(Containers, ALinkThatARankPutInPlaceOfItsFolderKeepsNoAgentFromStarting) {
  TempDir dir;
  RealClock clock;
  const auto loop = EventLoop::Create(clock);
  ASSERT_OK(loop);
  ChildProcesses children;
  SideThreads side((*loop)->mailbox(), /*most=*/1);
  Containers::Options options;
  options.tools_root = dir / "tools";
  options.images_root = dir / "images";
  Containers containers(**loop, PosixFileSystem(), children, side, options);
  // Behind a hung mount whoever opens anything waits in the kernel.
  const auto hung = ::muster::testing::HungMount::Make(dir / "hung");
  if (hung == nullptr) GTEST_SKIP() << "nothing can be mounted here";
  std::filesystem::create_directories(dir / "ranks/job-2.a1.g1.r0");
  std::filesystem::create_directory_symlink(dir / "hung", dir / "ranks/job-1.a1.g1.r0");
  std::filesystem::create_symlink(dir / "hung/name", dir / "ranks/job-2.a1.g1.r0/container");
  std::promise<void> cleared;
  std::thread start([&] {
    containers.ClearLeftovers(dir / "ranks");
    cleared.set_value();
  });
  EXPECT_EQ(cleared.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  hung->Release();
  start.join();
}

TEST(Containers, AnImagesFileHasItsPatienceFromWhenAThreadTakesItUp) {
  TempDir dir;
  RealClock clock;
  const auto loop = EventLoop::Create(clock);
  ASSERT_OK(loop);
  ChildProcesses children;
  SideThreads side((*loop)->mailbox(), /*most=*/1);
  Containers::Options options;
  options.runtimes.apptainer = "/nothing/apptainer";
  options.tools_root = dir / "tools";
  options.images_root = dir / "images";
  options.path_patience = kPatienceBehindSlow;
  Containers containers(**loop, PosixFileSystem(), children, side, options);
  const std::string image = dir / "image.sif";
  std::ofstream(image) << "an image";
  EnqueueSlow(side);
  std::optional<absl::Status> told;
  containers.Prepare({.job_id = 1, .attempt = 1, .generation = 1, .rank = 0}, image,
                     [&](absl::Status status) {
                       told = std::move(status);
                       (*loop)->Quit();
                     });
  (*loop)->Run();
  ASSERT_TRUE(told.has_value());
  EXPECT_OK(*told);
}

}  // namespace
}  // namespace muster::worker
