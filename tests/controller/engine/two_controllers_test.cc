// Controllers that count their jobs alike, under one checkpoint root: each job has a folder of its
// own in it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/ckpt/checkpoint_finder.h"
#include "tests/support/checkpoint_builder.h"
#include "tests/support/controller_fixture.h"

namespace muster::controller {
namespace {

using ::muster::testing::CheckpointSpec;
using ::muster::testing::IsOk;
using ::muster::testing::MakeSettings;
using ::muster::testing::StatusIs;
using ::muster::testing::WriteCheckpoint;

class TwoControllersTest : public ::muster::testing::ControllerFixture {
 protected:
  // From now on it is the controller of this data folder that runs.
  void Serve(const std::string& name) {
    engine_.reset();
    EngineOptions options = Options();
    options.data_dir = dir_ / name;
    std::filesystem::create_directories(options.data_dir);
    auto engine = Engine::Open(options, clock_);
    ASSERT_OK(engine);
    engine_ = *std::move(engine);
  }

  // A job that saves where both controllers' jobs do.
  uint64_t SubmitShared() {
    auto settings = std::make_shared<JobSettings>(*MakeSettings({.wait_for_capacity = true}));
    settings->checkpoint_root = dir_ / "checkpoints";
    const EventResult result =
        Apply(SubmitJob{.settings = settings, .owner = "ann", .idempotency_key = ""});
    EXPECT_OK(result.status);
    return result.job_id;
  }

  // What the job's next attempt would find to resume from.
  absl::StatusOr<std::optional<FoundCheckpoint>> Find(const StartAssignment& start) {
    FindRequest request;
    request.root = start.checkpoint_root;
    request.job_id = start.fence.job_id;
    request.job_name = start.job_name;
    request.attempt = start.fence.attempt + 1;
    return FindCheckpoint(PosixFileSystem(), request);
  }
};

TEST_F(TwoControllersTest, JobsOfOneNumberAndNameDoNotTouchEachOthersCheckpoints) {
  ASSERT_NO_FATAL_FAILURE(Serve("first"));
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = SubmitShared();
  const CheckpointSpec saved = {.step = 10, .attempt = 1, .job_id = id, .job_name = "job"};
  const StartAssignment first = StartRanks(one);
  ASSERT_OK_AND_ASSIGN(const auto theirs,
                       WriteCheckpoint(PosixFileSystem(), first.checkpoint_root, saved));

  ASSERT_NO_FATAL_FAILURE(Serve("second"));
  Agent two = ConnectNew("worker-2", 1);
  ASSERT_EQ(SubmitShared(), id);
  const StartAssignment second = StartRanks(two);
  EXPECT_EQ(second.job_name, first.job_name);

  ASSERT_OK_AND_ASSIGN(const auto nothing, Find(second));
  EXPECT_FALSE(nothing.has_value());
  CheckpointReport foreign = MakeCommit(two, second.fence, 10);
  foreign.path = theirs.path;
  EXPECT_THAT(Apply(foreign).status, StatusIs(absl::StatusCode::kInvalidArgument));

  ASSERT_OK_AND_ASSIGN(const auto ours,
                       WriteCheckpoint(PosixFileSystem(), second.checkpoint_root, saved));
  ASSERT_OK_AND_ASSIGN(const auto found, Find(second));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->path, ours.path);
  ASSERT_OK_AND_ASSIGN(const auto their_own, Find(first));
  ASSERT_TRUE(their_own.has_value());
  EXPECT_EQ(their_own->path, theirs.path);
}

TEST_F(TwoControllersTest, ACopyOfTheDataFolderGivesANumberASecondTimeAndAnotherFolder) {
  ASSERT_NO_FATAL_FAILURE(Serve("controller"));
  const uint64_t before = SubmitShared();
  const std::string kept = job(before).checkpoint_folder();
  engine_.reset();
  std::filesystem::copy(dir_ / "controller", dir_ / "copy",
                        std::filesystem::copy_options::recursive);

  ASSERT_NO_FATAL_FAILURE(Serve("controller"));
  Advance(absl::Seconds(1));
  const uint64_t id = SubmitShared();
  const std::string lost = job(id).checkpoint_folder();

  ASSERT_NO_FATAL_FAILURE(Serve("copy"));
  Advance(absl::Seconds(1));
  ASSERT_EQ(SubmitShared(), id);
  EXPECT_NE(job(id).checkpoint_folder(), lost);
  EXPECT_EQ(job(before).checkpoint_folder(), kept) << "the copy knows it, with what it saved";
}

}  // namespace
}  // namespace muster::controller
