#include "worker/agent/command/command_paths.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::worker {
namespace {

using ::absl::StatusCode;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::HasSubstr;

namespace files = std::filesystem;

class CommandPathsTest : public ::testing::Test {
 protected:
  CommandPathsTest() {
    request_.start.set_checkpoint_root(dir_ / "jobs/job-1");
    request_.settings.argv = {"tool"};
    request_.settings.workdir = dir_ / "work";
    request_.path = dir_ / "bin";
    request_.worker = "w1";
    files::create_directories(dir_ / "work");
    files::create_directories(dir_ / "bin");
    std::ofstream(dir_ / "bin/tool").put('x');
    ::chmod((dir_ / "bin/tool").c_str(), 0755);
  }
  absl::StatusOr<CommandPaths> Find() {
    return FindCommandPaths(PosixFileSystem(), request_, watch_);
  }

  TempDir dir_;
  CommandPathsRequest request_;
  PathWatch watch_;
};

TEST_F(CommandPathsTest, FindsTheFolderAndTheProgramAndMakesTheFolderForCheckpoints) {
  ASSERT_OK_AND_ASSIGN(const CommandPaths paths, Find());
  EXPECT_EQ(paths.directory, dir_ / "work");
  EXPECT_EQ(paths.program, dir_ / "bin/tool");
  EXPECT_TRUE(paths.has_offers);
  EXPECT_TRUE(files::is_directory(dir_ / "jobs/job-1/offers"));
}

TEST_F(CommandPathsTest, WhatIsMissingIsSaidWithWhereItMayBe) {
  request_.settings.workdir = dir_ / "none";
  EXPECT_THAT(Find(), StatusIs(StatusCode::kNotFound, HasSubstr("is not there on worker w1")));
  EXPECT_EQ(MissingOf(Find().status()), v1::RankEvent::ON_WORKER);
  request_.settings.upload = "hash";
  request_.upload = dir_ / "unpacked";
  request_.settings.workdir = "below";
  EXPECT_EQ(MissingOf(Find().status()), v1::RankEvent::IN_UPLOAD);
  request_.settings.upload.clear();
  request_.settings.workdir = dir_ / "work";
  request_.settings.argv = {"none"};
  EXPECT_EQ(MissingOf(Find().status()), v1::RankEvent::ON_WORKER);
}

TEST_F(CommandPathsTest, ACommandThatSavesNothingNeedsNoFolderForCheckpoints) {
  std::ofstream(dir_ / "jobs").put('x');
  ASSERT_OK_AND_ASSIGN(const CommandPaths paths, Find());
  EXPECT_FALSE(paths.has_offers);
}

TEST_F(CommandPathsTest, AContainerIsShownNothingOverALinkThatAJobPlanted) {
  request_.settings.image = "a/b:1";
  files::create_directories(dir_ / "jobs/job-1");
  files::create_directory_symlink("/etc", dir_ / "jobs/job-1/offers");
  EXPECT_THAT(Find(), StatusIs(StatusCode::kPermissionDenied, HasSubstr("leads out")));
  files::remove(dir_ / "jobs/job-1/offers");
  EXPECT_OK(Find());
  files::create_directory_symlink("/etc", dir_ / "jobs/job-1/step-1.a1.g1");
  request_.facts.resume_path = dir_ / "jobs/job-1/step-1.a1.g1";
  EXPECT_THAT(Find(), StatusIs(StatusCode::kPermissionDenied));
}

TEST_F(CommandPathsTest, OnlyACheckpointOfTheJobsIsResumedFrom) {
  v1::StartRanks::Resume& named = *request_.start.add_resume();
  named.set_path("/elsewhere/step-3.a1.g1");
  GangFacts facts;
  EXPECT_OK(CheckResumePath(request_.start, facts));
  for (const std::string& good :
       {std::string("/elsewhere/step-3.a1.g1"), dir_ / "jobs/job-1/step-9.a2.g1"}) {
    facts.resume_path = good;
    EXPECT_OK(CheckResumePath(request_.start, facts)) << good;
  }
  for (const std::string& bad :
       {std::string("/etc"), std::string("/"), std::string("step-9.a2.g1"),
        std::string("/elsewhere/step-4.a1.g1"), dir_ / "jobs/job-1/../step-9.a2.g1",
        dir_ / "jobs/job-1/offers", dir_ / "jobs/job-1/step-9.a2.g1.ab.tmp",
        dir_ / "jobs/job-2/step-9.a2.g1"}) {
    facts.resume_path = bad;
    EXPECT_THAT(CheckResumePath(request_.start, facts), StatusIs(StatusCode::kInternal)) << bad;
  }
}

}  // namespace
}  // namespace muster::worker
