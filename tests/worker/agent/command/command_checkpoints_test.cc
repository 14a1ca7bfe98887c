#include "worker/agent/command/command_checkpoints.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/utf8.h"
#include "common/ckpt/verifier.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/hung_mount.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/agent/side_jobs.h"
#include "worker/agent/base/event_loop.h"
#include "worker/agent/checkpoint/resume_search.h"
#include "worker/agent/command/command_rules.h"

namespace muster::worker {
namespace {

using ::muster::testing::FaultyFileSystem;
using ::muster::testing::TempDir;
using ::testing::HasSubstr;
using Kind = v1::CheckpointEvent;

class CommandCheckpointsTest : public ::testing::Test {
 protected:
  CommandCheckpointsTest() {
    fence_.set_job_id(7);
    fence_.set_attempt(2);
    fence_.set_generation(1);
  }

  std::unique_ptr<CommandCheckpoints> Make() {
    return std::make_unique<CommandCheckpoints>(
        fs_, threads_,
        CommandCheckpoints::Options{.fence = fence_,
                                    .job_name = "j",
                                    .root = dir_ / "root",
                                    .holder = holder_,
                                    .offer_roots = offer_roots_,
                                    .ranks_root = ranks_root_,
                                    .patience = patience_,
                                    .file_mask = file_mask_},
        CommandCheckpoints::Callbacks{
            .may_publish = [this] { return lease_; },
            .report = [this](v1::CheckpointEvent event) { events_.push_back(std::move(event)); },
            .answer = [this](
                          uint64_t connection,
                          const CommittedLine& line) { answers_.emplace_back(connection, line); },
            .on_idle = [this] { loop_->Quit(); }});
  }
  void Write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(dir_ / name).parent_path());
    std::ofstream(dir_ / name) << text;
  }
  CheckpointLine Line(int64_t step, const std::string& path) {
    CheckpointLine line;
    line.kind = CheckpointLine::Kind::kOffer;
    line.step = step;
    line.path = path;
    line.best = true;
    line.metrics = {{"validation_accuracy", 0.5}};
    return line;
  }

  TempDir dir_;
  RealClock clock_;
  std::unique_ptr<EventLoop> loop_ = *EventLoop::Create(clock_);
  FaultyFileSystem fs_{PosixFileSystem()};
  SideThreads threads_{loop_->mailbox(), /*most=*/1};
  std::vector<std::string> offer_roots_ = {dir_ / "none", dir_.path()};
  std::string ranks_root_;
  std::optional<mode_t> file_mask_;
  absl::Duration patience_ = absl::Minutes(10);
  v1::Fence fence_;
  bool lease_ = true;
  CheckpointRoot holder_;  // none: nothing is checked
  std::vector<v1::CheckpointEvent> events_;
  std::vector<std::pair<uint64_t, CommittedLine>> answers_;
};

TEST_F(CommandCheckpointsTest, AFolderBecomesACheckpointThatVerifiesAndIsFoundAgain) {
  Write("offer/model.bin", std::string(5 << 20, 'm'));
  Write("offer/opt.bin", "o");
  const auto checkpoints = Make();
  checkpoints->Offer(4, Line(10, dir_ / "offer"));
  EXPECT_FALSE(checkpoints->idle());
  loop_->Run();
  ASSERT_EQ(events_.size(), 2u);
  EXPECT_EQ(events_[0].kind(), Kind::BEGIN);
  const v1::CheckpointEvent& commit = events_[1];
  EXPECT_EQ(commit.kind(), Kind::COMMIT);
  EXPECT_EQ(commit.path(), (dir_ / "root") + "/step-10.a2.g1");
  EXPECT_GT(commit.bytes(), 5u << 20);
  EXPECT_TRUE(commit.best());
  EXPECT_EQ(commit.metrics().at("validation_accuracy"), 0.5);
  EXPECT_OK(VerifyCheckpoint(PosixFileSystem(), commit.path(), commit.manifest_sha256()));
  // What was offered stays the command's own.
  EXPECT_TRUE(std::filesystem::exists(dir_ / "offer/opt.bin"));
  EXPECT_TRUE(answers_.empty());
  checkpoints->OnAck(10, "");
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_[0].first, 4u);
  EXPECT_EQ(answers_[0].second.error, "");

  v1::StartRanks start;
  *start.mutable_fence() = fence_;
  start.mutable_fence()->set_attempt(3);
  start.set_job_name("j");
  start.set_checkpoint_root(dir_ / "root");
  v1::StartRanks::Resume& resume = *start.add_resume();
  resume.set_path(commit.path());
  resume.set_step(10);
  resume.set_manifest_sha256(commit.manifest_sha256());
  ResumeFound found = SearchResume(PosixFileSystem(), start, [] { return true; });
  EXPECT_OK(found.status);
  EXPECT_EQ(found.path, commit.path());
  EXPECT_EQ(found.step, 10);
  EXPECT_TRUE(found.events.empty());

  Write("root/step-10.a2.g1/model.bin", "changed");
  found = SearchResume(PosixFileSystem(), start, [] { return true; });
  EXPECT_EQ(found.status.code(), absl::StatusCode::kDataLoss);
  ASSERT_EQ(found.events.size(), 1u);
  EXPECT_EQ(found.events[0].kind(), Kind::CORRUPT);
  EXPECT_EQ(found.events[0].path(), commit.path());
}

TEST_F(CommandCheckpointsTest, AnotherJobsCheckpointIsFoundAndNeverTakenForTheOwn) {
  Write("train.pt", "weights");
  const auto checkpoints = Make();
  checkpoints->Offer(1, Line(10, dir_ / "train.pt"));
  loop_->Run();
  ASSERT_EQ(events_.size(), 2u);
  const v1::CheckpointEvent commit = events_[1];
  v1::StartRanks start;
  start.mutable_fence()->set_job_id(8);
  start.mutable_fence()->set_attempt(1);
  start.mutable_fence()->set_generation(1);
  start.set_job_name("k");
  start.set_checkpoint_root(dir_ / "other");
  v1::StartRanks::Resume& resume = *start.add_resume();
  resume.set_path(commit.path());
  resume.set_step(10);
  resume.set_manifest_sha256(commit.manifest_sha256());
  ResumeFound found = SearchResume(PosixFileSystem(), start, [] { return true; });
  EXPECT_EQ(found.status.code(), absl::StatusCode::kFailedPrecondition) << "not job 8's own";
  resume.set_job_id(7);
  resume.set_job_name("j");
  found = SearchResume(PosixFileSystem(), start, [] { return true; });
  EXPECT_OK(found.status);
  EXPECT_EQ(found.path, commit.path());
  EXPECT_EQ(found.step, 10);
  EXPECT_TRUE(found.events.empty());
}

TEST_F(CommandCheckpointsTest, AFileWaitsForTheLease) {
  Write("train.pt", "weights");
  lease_ = false;
  const auto checkpoints = Make();
  checkpoints->Offer(1, Line(3, dir_ / "train.pt"));
  // Behind the copy on its thread; then a turn of the loop takes both results.
  threads_.Enqueue([this]() -> SideThreads::Completion { return [this] { loop_->Quit(); }; });
  loop_->Run();
  EXPECT_EQ(events_.size(), 1u);
  EXPECT_FALSE(checkpoints->idle());
  EXPECT_FALSE(std::filesystem::exists((dir_ / "root") + "/step-3.a2.g1"));
  lease_ = true;
  checkpoints->TryPublish();
  loop_->Run();
  EXPECT_EQ(events_.back().kind(), Kind::COMMIT);
  EXPECT_TRUE(std::filesystem::exists((dir_ / "root") + "/step-3.a2.g1/train.pt"));
}

TEST_F(CommandCheckpointsTest, WhereTheRootIsNotSeenNothingIsMadeAndTheCommandIsTold) {
  Write("offer/model.bin", "m");
  holder_ = {.path = dir_.path(), .identity = "abc1"};
  const auto checkpoints = Make();
  checkpoints->Offer(4, Line(10, dir_ / "offer"));
  loop_->Run();
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_THAT(answers_[0].second.error, HasSubstr("is it mounted?"));
  EXPECT_EQ(events_.back().kind(), Kind::FAILED);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "root"));
}

TEST_F(CommandCheckpointsTest, WhereTheRootIsNotSeenTheSearchIsNoVerdict) {
  v1::StartRanks start;
  *start.mutable_fence() = fence_;
  start.set_checkpoint_root(dir_ / "root");
  start.set_root(dir_.path());
  start.set_root_identity("abc1");
  start.add_resume()->set_path(dir_ / "root/step-10.a1.g1");
  start.mutable_resume(0)->set_step(10);
  const auto search = [&] { return SearchResume(PosixFileSystem(), start, [] { return true; }); };
  EXPECT_TRUE(IsStorageUnavailable(search().status)) << search().status;
  EXPECT_TRUE(search().events.empty());
  // Where it is seen, what is not there is told, and is not called corrupt.
  ASSERT_OK(ClaimRoot(PosixFileSystem(), {dir_.path(), "abc1"}, {}, "test"));
  EXPECT_FALSE(IsStorageUnavailable(search().status));
  EXPECT_FALSE(search().status.ok());
  ASSERT_EQ(search().events.size(), 1u);
  EXPECT_EQ(search().events[0].kind(), Kind::UNREAD);
}

TEST_F(CommandCheckpointsTest, WhatWasLeftHalfWrittenIsRemovedWhereTheRootIsSeen) {
  const std::string stale = dir_ / "root/step-9.a1.g1.ab.tmp";
  Write("root/step-9.a1.g1.ab.tmp/model.bin", "half");
  v1::StartRanks start;
  *start.mutable_fence() = fence_;
  start.set_checkpoint_root(dir_ / "root");
  start.set_root(dir_.path());
  start.set_root_identity("abc1");
  RemoveLeftHalfWritten(PosixFileSystem(), start);
  EXPECT_TRUE(std::filesystem::exists(stale));
  ASSERT_OK(ClaimRoot(PosixFileSystem(), {dir_.path(), "abc1"}, {}, "test"));
  RemoveLeftHalfWritten(PosixFileSystem(), start);
  EXPECT_FALSE(std::filesystem::exists(stale));
}

TEST_F(CommandCheckpointsTest, WhatCannotBeCopiedIsToldAndTheNextOneGoesOn) {
  Write("nested/inner/x", "x");
  Write("own/MANIFEST.json", "{}");
  std::filesystem::create_directories(dir_ / "empty");
  Write("good", "g");
  const auto checkpoints = Make();
  const std::map<std::string, std::string> bad = {{"missing", "missing"},
                                                  {"nested", "inner is a folder"},
                                                  {"own", "this name is Muster's own"},
                                                  {"empty", "holds 0 files"}};
  int64_t step = 0;
  for (const auto& [name, why] : bad) checkpoints->Offer(9, Line(++step, dir_ / name));
  checkpoints->Offer(9, Line(++step, dir_ / "good"));
  loop_->Run();
  ASSERT_EQ(answers_.size(), bad.size());
  EXPECT_EQ(events_.back().kind(), Kind::COMMIT);
  size_t i = 0;
  std::vector<std::string> errors;
  for (const auto& [connection, line] : answers_) errors.push_back(line.error);
  for (const auto& [name, why] : bad) EXPECT_THAT(errors[i++], HasSubstr(why)) << name;
  // Nothing half written stays.
  for (const auto& entry : std::filesystem::directory_iterator(dir_ / "root")) {
    EXPECT_EQ(entry.path().filename(), "step-5.a2.g1");
  }
}

TEST_F(CommandCheckpointsTest, OfAWholeCheckpointTheManifestIsLeftBehind) {
  Write("own/weights", "w");
  const auto checkpoints = Make();
  checkpoints->Offer(9, Line(1, dir_ / "own"));
  loop_->Run();
  ASSERT_EQ(events_.back().kind(), Kind::COMMIT);
  std::filesystem::copy(events_.back().path(), dir_ / "copied");
  ASSERT_TRUE(std::filesystem::exists(dir_ / "copied/MANIFEST.json"));
  checkpoints->OnAck(1, "");
  checkpoints->Offer(9, Line(2, dir_ / "copied"));
  loop_->Run();
  ASSERT_EQ(events_.back().kind(), Kind::COMMIT) << events_.back().message();
  const auto published = ReadAndVerifyCheckpoint(PosixFileSystem(), events_.back().path(), "");
  ASSERT_OK(published);
  EXPECT_EQ(published->manifest.step, 2);
  ASSERT_EQ(published->manifest.files.size(), 1u);
  EXPECT_EQ(published->manifest.files[0].name, "weights");
}

// Its checkpoint would be acknowledged, and condemned at the first reading.
TEST_F(CommandCheckpointsTest, ANameThatNoManifestCanHoldIsRefusedAndShownEscaped) {
  const std::map<std::string, std::string> bad = {
      {"a\\b", "\"a\\\\b\""}, {"new\nline", "\"new\\nline\""}, {"latin-\xe9", "\"latin-\\xe9\""}};
  const auto checkpoints = Make();
  int64_t step = 0;
  const auto expect_refusal = [&](const std::string& offered, const std::string& shown) {
    checkpoints->Offer(9, Line(++step, offered));
    loop_->Run();
    ASSERT_EQ(answers_.size(), static_cast<size_t>(step)) << shown;
    EXPECT_EQ(events_.back().kind(), Kind::FAILED) << shown;
    for (const std::string& why : {answers_.back().second.error, events_.back().message()}) {
      EXPECT_THAT(why, HasSubstr(shown));
      EXPECT_THAT(why, HasSubstr("bytes of UTF-8 without slash, backslash"));
      EXPECT_TRUE(IsUtf8(why)) << shown;
    }
  };
  for (const auto& [name, shown] : bad) {
    const std::string folder = absl::StrCat("offer-", step);
    Write(absl::StrCat(folder, "/good.pt"), "weights");
    Write(absl::StrCat(folder, "/", name), "weights");
    expect_refusal(dir_ / folder, shown);
  }
  Write("a\\b", "weights");
  expect_refusal(dir_ / "a\\b", "\"a\\\\b\"");
  EXPECT_FALSE(std::filesystem::exists(dir_ / "root")) << "nothing was copied";
  // Other letters and spaces are fine.
  Write("offer/größe 1.pt", "weights");
  checkpoints->Offer(9, Line(++step, dir_ / "offer"));
  loop_->Run();
  ASSERT_EQ(events_.back().kind(), Kind::COMMIT) << events_.back().message();
  EXPECT_OK(
      VerifyCheckpoint(PosixFileSystem(), events_.back().path(), events_.back().manifest_sha256()));
}

TEST_F(CommandCheckpointsTest, WhatLiesElsewhereIsNotReadForAJobWhateverLinksItPlants) {
  const TempDir elsewhere;
  std::ofstream(elsewhere / "secret") << "secret";
  std::filesystem::create_symlink(elsewhere / "secret", dir_ / "link");
  std::filesystem::create_directories(dir_ / "folder");
  std::filesystem::create_symlink(elsewhere / "secret", dir_ / "folder/model.pt");
  std::filesystem::create_directory_symlink(elsewhere.path(), dir_ / "out");
  ASSERT_EQ(::mkfifo((dir_ / "fifo").c_str(), 0600), 0);
  const std::vector<std::string> offered = {
      elsewhere / "secret", "/etc/hostname",    dir_ / "link", dir_ / "folder",
      dir_ / "out/secret",  dir_ / "../secret", dir_ / "out",  dir_ / "fifo"};
  const auto checkpoints = Make();
  for (const std::string& path : offered) {
    checkpoints->Offer(9, Line(1, path));
    loop_->Run();
    ASSERT_FALSE(answers_.empty()) << path;
    EXPECT_NE(answers_.back().second.error, "") << path;
    EXPECT_EQ(events_.back().kind(), Kind::FAILED) << path;
  }
  EXPECT_THAT(answers_[0].second.error, HasSubstr("write it in MUSTER_CHECKPOINT_DIR"));
  EXPECT_THAT(answers_[2].second.error, HasSubstr("leads out"));
  // A link that stays inside is as good as a file.
  Write("real.pt", "weights");
  std::filesystem::create_symlink("real.pt", dir_ / "latest.pt");
  checkpoints->Offer(9, Line(2, dir_ / "latest.pt"));
  loop_->Run();
  EXPECT_EQ(events_.back().kind(), Kind::COMMIT);
}

// A workdir of `/`, say: the agent's token lies below that, and would be published.
TEST_F(CommandCheckpointsTest, NothingIsTakenFromAFolderThatIsAroundTheAgentsOwn) {
  Write("data/ranks/x", "");
  Write("data/token", "secret");
  Write("jobs/model.pt", "weights");
  std::filesystem::create_directory_symlink(dir_.path(), dir_ / "jobs/up");
  ranks_root_ = dir_ / "data/ranks";
  for (const std::string& root :
       {std::string("/"), dir_.path(), dir_ / "data", ranks_root_, dir_ / "jobs/up"}) {
    offer_roots_ = {root};
    const auto checkpoints = Make();
    const std::string path = root == "/" ? dir_ / "data/token" : root + "/data/token";
    checkpoints->Offer(9, Line(1, path));
    loop_->Run();
    ASSERT_EQ(events_.back().kind(), Kind::FAILED) << root;
    EXPECT_THAT(answers_.back().second.error,
                HasSubstr("no checkpoint is taken from " + root + ", since"));
  }
  offer_roots_ = {dir_ / "jobs", "/"};
  const auto checkpoints = Make();
  checkpoints->Offer(9, Line(2, dir_ / "jobs/model.pt"));
  loop_->Run();
  EXPECT_EQ(events_.back().kind(), Kind::COMMIT) << "another root is fine";
}

TEST_F(CommandCheckpointsTest, AFileThatDoesNotAnswerIsGivenUpAndTheNextOneGoesOn) {
  const auto hung = ::muster::testing::HungMount::Make(dir_ / "hung");
  if (hung == nullptr) GTEST_SKIP() << "nothing can be mounted here";
  patience_ = absl::Seconds(3);  // the other one is synced to a disk that may be busy
  SideThreads threads(loop_->mailbox());
  CommandCheckpoints checkpoints(
      PosixFileSystem(), threads,
      {.fence = fence_, .root = dir_ / "root", .offer_roots = {dir_.path()}, .patience = patience_},
      {.may_publish = [] { return true; },
       .report = [this](v1::CheckpointEvent event) { events_.push_back(std::move(event)); },
       .answer = [this](uint64_t connection,
                        const CommittedLine& line) { answers_.emplace_back(connection, line); },
       .on_idle = [this] { loop_->Quit(); }});
  Write("good", "g");
  checkpoints.Offer(1, Line(1, dir_ / "hung/model.pt"));
  checkpoints.Offer(1, Line(2, dir_ / "good"));
  const std::function<void()> tick = [&] {
    checkpoints.GiveUpWhatHangs();
    loop_->After(absl::Milliseconds(20), tick);
  };
  tick();
  loop_->Run();
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_THAT(answers_[0].second.error, HasSubstr(dir_ / "hung/model.pt"));
  EXPECT_EQ(events_.back().kind(), Kind::COMMIT);
  EXPECT_EQ(events_.back().step(), 2);
}

TEST_F(CommandCheckpointsTest, ACopyHasItsPatienceFromWhenAThreadTakesItUp) {
  patience_ = kPatienceBehindSlow;
  Write("train.pt", "weights");
  EnqueueSlow(threads_);
  const auto checkpoints = Make();
  checkpoints->Offer(1, Line(3, dir_ / "train.pt"));
  const std::function<void()> tick = [&] {
    checkpoints->GiveUpWhatHangs();
    loop_->After(absl::Milliseconds(20), tick);
  };
  tick();
  loop_->Run();
  EXPECT_EQ(events_.back().kind(), Kind::COMMIT) << events_.back().message();
}

TEST_F(CommandCheckpointsTest, ACopyForWhichNoThreadComesFreeIsGivenUpWithWhatTheyWaitFor) {
  patience_ = absl::Milliseconds(50);
  Write("train.pt", "weights");
  HungJob hung(threads_, "/mnt/dead/model.pt");
  const auto checkpoints = Make();
  checkpoints->Offer(1, Line(3, dir_ / "train.pt"));
  const std::function<void()> tick = [&] {
    checkpoints->GiveUpWhatHangs();
    loop_->After(absl::Milliseconds(20), tick);
  };
  tick();
  loop_->Run();
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_THAT(answers_[0].second.error, HasSubstr("/mnt/dead/model.pt"));
  EXPECT_EQ(events_.back().kind(), Kind::FAILED);
}

TEST_F(CommandCheckpointsTest, ALargeFileReachesTheDiskBitByBitSoThatASlowOneIsSeenToGetOn) {
  Write("offer/model.bin", "");
  constexpr uint64_t kFileBytes = 2 * JobCheckpointFiles::kSyncBytes + (5u << 20);
  std::filesystem::resize_file(dir_ / "offer/model.bin", kFileBytes);
  const auto checkpoints = Make();
  checkpoints->Offer(4, Line(10, dir_ / "offer"));
  loop_->Run();
  EXPECT_EQ(events_.back().kind(), Kind::COMMIT) << events_.back().message();
  std::vector<std::string> syncs;
  for (const std::string& operation : fs_.trace()) {
    if (operation.starts_with("sync ") && operation.ends_with("model.bin")) {
      syncs.push_back(operation);
    }
  }
  EXPECT_EQ(syncs.size(), 3u);
}

TEST_F(CommandCheckpointsTest, WhatIsNotPublishedIsRemovedByASideThread) {
  Write("train.pt", "weights");
  lease_ = false;
  auto checkpoints = Make();
  checkpoints->Offer(1, Line(3, dir_ / "train.pt"));
  const auto turn = [this] {
    threads_.Enqueue([this]() -> SideThreads::Completion { return [this] { loop_->Quit(); }; });
    loop_->Run();
  };
  turn();
  ASSERT_FALSE(std::filesystem::is_empty(dir_ / "root"));
  std::thread::id remover;
  fs_.CallAt(1, [&] { remover = std::this_thread::get_id(); });
  checkpoints = nullptr;
  turn();
  EXPECT_TRUE(std::filesystem::is_empty(dir_ / "root"));
  EXPECT_NE(remover, std::thread::id());
  EXPECT_NE(remover, std::this_thread::get_id());
}

TEST_F(CommandCheckpointsTest, WhatIsGivenUpBeforeItIsWrittenIsRemovedWhenItIs) {
  Write("train.pt", "weights");
  auto checkpoints = Make();
  checkpoints->Offer(1, Line(3, dir_ / "train.pt"));
  checkpoints = nullptr;
  // The copy, and behind its end the removal; a later turn is behind that.
  threads_.Enqueue([this]() -> SideThreads::Completion {
    return [this] {
      threads_.Enqueue([this]() -> SideThreads::Completion { return [this] { loop_->Quit(); }; });
    };
  });
  loop_->Run();
  EXPECT_TRUE(std::filesystem::is_empty(dir_ / "root"));
  EXPECT_EQ(events_.size(), 1u);
}

TEST_F(CommandCheckpointsTest, WhatIsPublishedIsOpenAsTheJobsOwnFilesAre) {
  Write("train.pt", "weights");
  file_mask_ = 0022;
  const auto checkpoints = Make();
  checkpoints->Offer(1, Line(3, dir_ / "train.pt"));
  const mode_t before = ::umask(0077);
  loop_->Run();
  ::umask(before);
  ASSERT_EQ(events_.back().kind(), Kind::COMMIT) << events_.back().message();
  const auto mode = [](const std::string& path) {
    struct stat info = {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 0777;
  };
  EXPECT_EQ(mode(dir_ / "root"), 0755u);
  EXPECT_EQ(mode(events_.back().path()), 0755u);
  EXPECT_EQ(mode(events_.back().path() + "/train.pt"), 0644u);
  EXPECT_EQ(mode(events_.back().path() + "/MANIFEST.json"), 0644u);
}

TEST_F(CommandCheckpointsTest, OffersOutOfBoundsAreRefusedAtOnce) {
  const auto checkpoints = Make();
  checkpoints->Offer(1, Line(1, "relative"));
  checkpoints->Offer(1, Line(1, "/"));
  checkpoints->Offer(1, Line(-1, dir_ / "x"));
  EXPECT_EQ(answers_.size(), 3u);
  EXPECT_TRUE(checkpoints->idle());
  for (size_t i = 0; i < CommandCheckpoints::kMaxWaiting + 2; ++i) {
    checkpoints->Offer(1, Line(1, dir_ / "x"));
  }
  EXPECT_EQ(answers_.size(), 4u);
}

}  // namespace
}  // namespace muster::worker
