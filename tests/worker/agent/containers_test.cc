// What Containers does before any runtime is called; agent_container_test has the rest.
#include "worker/agent/containers.h"

#include <gtest/gtest.h>

#include <fstream>
#include <optional>

#include "common/base/clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/agent/side_jobs.h"
#include "worker/agent/event_loop.h"

namespace muster::worker {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::TempDir;

TEST(Containers, AnImagesFileHasItsPatienceFromWhenAThreadTakesItUp) {
  TempDir dir;
  RealClock clock;
  const auto loop = EventLoop::Create(clock);
  ASSERT_OK(loop);
  Children children;
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
