// `--upload DIR` on a real Muster: the folder arrives, once, wherever the program runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/cluster.h"

namespace muster::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

namespace files = std::filesystem;

class UploadWalk : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NO_FATAL_FAILURE(cluster_.Up(2)); }
  void TearDown() override { cluster_.Down(); }

  // A folder of this machine that holds these files.
  std::string MakeFolder(const std::string& name,
                         const std::vector<std::pair<std::string, std::string>>& contents) {
    const std::string folder = cluster_.Path(name);
    for (const auto& [file, text] : contents) {
      const files::path path = folder + "/" + file;
      files::create_directories(path.parent_path());
      std::ofstream(path) << text;
      files::permissions(path, files::perms::owner_all);
    }
    return folder;
  }
  ProcessResult Run(const std::string& folder, const Words& flags, const Words& program) {
    Words args = {"run", "--upload", folder};
    args.insert(args.end(), flags.begin(), flags.end());
    args.push_back("--");
    args.insert(args.end(), program.begin(), program.end());
    return cluster_.Cli(args);
  }
  // How many entries the folder of a daemon holds; 0 when it is not there.
  size_t Count(const std::string& folder) {
    const std::string path = cluster_.Path("local/" + folder);
    if (!files::exists(path)) return 0;
    return static_cast<size_t>(
        std::distance(files::directory_iterator(path), files::directory_iterator()));
  }

  Cluster cluster_;
};

TEST_F(UploadWalk, TheProgramRunsInTheFolderOnEveryWorker) {
  const std::string folder =
      MakeFolder("code", {{"run.sh", "#!/bin/sh\ncat sub/words; echo $RANK > mark; cat mark\n"},
                          {"sub/words", "hello from the folder\n"},
                          {"sub/here.sh", "#!/bin/sh\nls\n"}});
  const ProcessResult both = Run(folder, {"--ranks", "2"}, {"./run.sh"});
  EXPECT_EQ(both.exit_code, 0) << both.err;
  EXPECT_THAT(both.err, HasSubstr("uploading 4 files and folders"));
  EXPECT_THAT(both.out, HasSubstr("a1.r0 | hello from the folder\n"));
  EXPECT_THAT(both.out, HasSubstr("a1.r1 | hello from the folder\n"));
  EXPECT_THAT(both.out, HasSubstr("a1.r1 | 1\n")) << "each worker's folder is its own";

  const ProcessResult again = Run(folder, {"--workdir", "sub"}, {"./here.sh"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.err, Not(HasSubstr("uploading"))) << "it is there already";
  EXPECT_EQ(again.out, "here.sh\nwords\n") << "without what the first job left behind";
  EXPECT_EQ(Count("controller/uploads"), 1u);
  for (const char* worker : {"worker-1", "worker-2"}) {
    EXPECT_TRUE(
        WaitUntil(absl::Minutes(1), [&] { return Count(absl::StrCat(worker, "/work")) == 0; }))
        << worker << " keeps a folder that nobody uses";
    EXPECT_EQ(Count(absl::StrCat(worker, "/uploads")), 1u);
  }
}

TEST_F(UploadWalk, ARestartedAttemptBeginsWithTheFolderAsItWas) {
  const std::string folder =
      MakeFolder("code", {{"run.sh",
                           "#!/bin/sh\ntest ! -e mark || exit 9\ntouch mark\n"
                           "test $MUSTER_ATTEMPT = 2\n"}});
  const ProcessResult run = Run(folder, {"--set", "restart.max_restarts=1"}, {"./run.sh"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(Member(cluster_.Show(1), "attempts").size(), 2u);
}

TEST_F(UploadWalk, AnUploadSurvivesTheController) {
  const std::string folder = MakeFolder("code", {{"run.sh", "#!/bin/sh\necho still here\n"}});
  const ProcessResult held =
      cluster_.Cli({"submit", "-q", "--hold", "--upload", folder, "--", "./run.sh"});
  ASSERT_EQ(held.exit_code, 0) << held.err;
  ASSERT_EQ(::kill(cluster_.DaemonProcess("musterd").pid, SIGKILL), 0);
  files::remove_all(folder);
  ASSERT_EQ(cluster_.Cli({"release", "1"}).exit_code, 0);
  EXPECT_EQ(cluster_.WaitForEnd(1), "SUCCEEDED");
  EXPECT_EQ(cluster_.Cli({"logs", "1"}).out, "still here\n");
}

TEST_F(UploadWalk, AFailedJobIsQueuedAgainWithItsFolderWhileThatIsThere) {
  const std::string marker = cluster_.Path("mended");
  const std::string folder = MakeFolder(
      "code", {{"run.sh", absl::StrCat("#!/bin/sh\ntest -e ", marker, " && cat words\n")},
               {"words", "as it was sent\n"}});
  ASSERT_EQ(Run(folder, {}, {"./run.sh"}).exit_code, 1);
  files::remove_all(folder);
  std::ofstream(marker) << "";
  const ProcessResult queued = cluster_.Cli({"requeue", "1"});
  ASSERT_EQ(queued.exit_code, 0) << queued.err;
  EXPECT_EQ(cluster_.WaitForEnd(1), "SUCCEEDED");
  EXPECT_THAT(cluster_.Cli({"logs", "1"}).out, HasSubstr("as it was sent\n"));
}

TEST_F(UploadWalk, WhatCannotBeIsSaidBeforeAnythingRuns) {
  const ProcessResult nothing = Run(cluster_.Path("nothing"), {}, {"true"});
  EXPECT_EQ(nothing.exit_code, 2) << nothing.err;
  const std::string folder = MakeFolder("links", {{"file", ""}});
  files::create_symlink("/etc/passwd", folder + "/out");
  const ProcessResult link = Run(folder, {}, {"true"});
  EXPECT_EQ(link.exit_code, 2);
  EXPECT_THAT(link.err, HasSubstr("link out -> /etc/passwd leaves it"));
  const ProcessResult outside =
      Run(MakeFolder("code", {{"file", ""}}), {"--workdir", "../x"}, {"true"});
  EXPECT_EQ(outside.exit_code, 2);
  const ProcessResult unknown = cluster_.Cli(
      {"submit", "--set", absl::StrCat("command.upload=", std::string(64, 'a')), "--", "true"});
  EXPECT_EQ(unknown.exit_code, 3) << unknown.err;
  EXPECT_THAT(unknown.err, HasSubstr("muster submit --upload DIR"));
  const ProcessResult dry = cluster_.Cli(
      {"submit", "--dry-run", "--upload", MakeFolder("code", {{"file", ""}}), "--", "true"});
  EXPECT_EQ(dry.exit_code, 0) << dry.err;
  EXPECT_EQ(Count("controller/uploads"), 0u) << "a dry run sends nothing";
}

}  // namespace
}  // namespace muster::testing
