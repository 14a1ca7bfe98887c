#include "worker/agent/command_checkpoints.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "common/ckpt/verifier.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/agent/event_loop.h"
#include "worker/agent/resume_search.h"

namespace muster::worker {
namespace {

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
        PosixFileSystem(), background_,
        CommandCheckpoints::Options{.fence = fence_, .job_name = "j", .root = dir_ / "root"},
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
  BackgroundThread background_{loop_->mailbox()};
  v1::Fence fence_;
  bool lease_ = true;
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
  background_.Enqueue(
      [this]() -> BackgroundThread::Completion { return [this] { loop_->Quit(); }; });
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
