#include "common/ckpt/checkpoint_finder.h"

#include <filesystem>
#include <fstream>

#include "tests/support/checkpoint_builder.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster {
namespace {

using ::absl::StatusCode;
using ::muster::testing::CheckpointSpec;
using ::muster::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CheckpointFinderTest : public ::testing::Test {
 protected:
  CheckpointFinderTest() {
    request_.root = dir_.path();
    request_.job_id = 7;
    request_.job_name = "digits";
    request_.attempt = 3;
    request_.on_bad = [this](const CheckpointCandidate& candidate, const absl::Status& status) {
      bad_.push_back(std::to_string(candidate.step) + " " +
                     absl::StatusCodeToString(status.code()));
    };
  }

  std::string Write(int64_t step, uint32_t attempt, bool registered, uint64_t job_id = 7) {
    CheckpointSpec spec;
    spec.step = step;
    spec.attempt = attempt;
    spec.job_id = job_id;
    const auto written = testing::WriteCheckpoint(fs_, dir_.path(), spec);
    EXPECT_OK(written);
    if (registered) {
      request_.registered.insert(request_.registered.begin(),
                                 {written->path, step, written->manifest_sha256});
    }
    return written->path;
  }

  // Of job 5, in a folder of its own; offered before those that were offered before.
  std::string WriteOthers(int64_t step) {
    CheckpointSpec spec;
    spec.step = step;
    spec.attempt = 9;
    spec.job_id = 5;
    const std::string root = dir_ / "other";
    std::filesystem::create_directories(root);
    const auto written = testing::WriteCheckpoint(fs_, root, spec);
    EXPECT_OK(written);
    request_.registered.insert(
        request_.registered.begin(),
        {written->path, step, written->manifest_sha256, /*job_id=*/5, /*job_name=*/"digits"});
    return written->path;
  }

  void Corrupt(const std::string& path) {
    std::ofstream(path + "/model.safetensors", std::ios::binary) << "other bytes";
  }

  testing::TempDir dir_;
  FileSystem& fs_ = PosixFileSystem();
  FindRequest request_;
  std::vector<std::string> bad_;
};

TEST_F(CheckpointFinderTest, AFirstStartFindsNothing) {
  request_.attempt = 1;
  ASSERT_OK_AND_ASSIGN(auto found, FindCheckpoint(fs_, request_));
  EXPECT_FALSE(found.has_value());
  request_.root = dir_ / "not-made-yet";
  ASSERT_OK_AND_ASSIGN(found, FindCheckpoint(fs_, request_));
  EXPECT_FALSE(found.has_value());
}

TEST_F(CheckpointFinderTest, TheNewestWholeOneIsTaken) {
  Write(10, 1, true);
  Write(20, 1, true);
  ASSERT_OK_AND_ASSIGN(const auto found, FindCheckpoint(fs_, request_));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->checkpoint.manifest.step, 20);
  EXPECT_FALSE(found->adopted);
  EXPECT_THAT(bad_, ElementsAre());
}

TEST_F(CheckpointFinderTest, ABrokenOneIsReportedAndTheOneBeforeTaken) {
  Write(10, 1, true);
  std::filesystem::remove_all(Write(20, 1, true));
  Corrupt(Write(30, 2, true));
  ASSERT_OK_AND_ASSIGN(const auto found, FindCheckpoint(fs_, request_));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->checkpoint.manifest.step, 10);
  EXPECT_THAT(bad_, ElementsAre("30 DATA_LOSS", "20 NOT_FOUND"));
}

TEST_F(CheckpointFinderTest, AWholeOneThatTheCallerCannotReadIsPassedOver) {
  Write(10, 1, true);
  Write(20, 1, true);
  request_.usable = [](const FoundCheckpoint& found) {
    return found.checkpoint.manifest.step == 20 ? absl::DataLossError("no state in it")
                                                : absl::OkStatus();
  };
  ASSERT_OK_AND_ASSIGN(const auto found, FindCheckpoint(fs_, request_));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->checkpoint.manifest.step, 10);
  EXPECT_THAT(bad_, ElementsAre()) << "its bytes are as they were written";

  request_.usable = [](const FoundCheckpoint&) { return absl::DataLossError("no state in it"); };
  EXPECT_THAT(FindCheckpoint(fs_, request_),
              StatusIs(StatusCode::kDataLoss, HasSubstr("no state in it")));
  request_.usable = [](const FoundCheckpoint&) { return absl::FailedPreconditionError("no fit"); };
  EXPECT_THAT(FindCheckpoint(fs_, request_), StatusIs(StatusCode::kFailedPrecondition, "no fit"))
      << "an older one would not fit either";
}

TEST_F(CheckpointFinderTest, WithAllRegisteredOnesBrokenItNeverStartsFromScratch) {
  Corrupt(Write(10, 1, true));
  Corrupt(Write(20, 1, true));
  EXPECT_THAT(FindCheckpoint(fs_, request_),
              StatusIs(StatusCode::kDataLoss, HasSubstr("none of 2 checkpoints")));
  EXPECT_THAT(bad_, ElementsAre("20 DATA_LOSS", "10 DATA_LOSS"));
}

TEST_F(CheckpointFinderTest, AWholeUnregisteredOneOfTheNewestAttemptIsAdopted) {
  Write(10, 1, true);
  const std::string path = Write(20, 2, false);
  ASSERT_OK_AND_ASSIGN(const auto found, FindCheckpoint(fs_, request_));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->path, path);
  EXPECT_TRUE(found->adopted);
}

TEST_F(CheckpointFinderTest, AnotherJobsOneComesAfterTheOwnWhateverItsStep) {
  WriteOthers(90);
  WriteOthers(100);
  ASSERT_OK_AND_ASSIGN(auto found, FindCheckpoint(fs_, request_));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->checkpoint.manifest.step, 100);
  EXPECT_EQ(found->checkpoint.manifest.job_id, 5u);
  EXPECT_TRUE(found->of_other_job);
  EXPECT_FALSE(found->adopted);
  const std::string own = Write(20, 2, true);
  ASSERT_OK_AND_ASSIGN(found, FindCheckpoint(fs_, request_));
  EXPECT_EQ(found->checkpoint.manifest.step, 20);
  EXPECT_FALSE(found->of_other_job);
  // What the job itself wrote and could not register counts, though the other's step is higher.
  std::filesystem::remove_all(own);
  request_.registered.erase(request_.registered.begin());
  Write(30, 2, false);
  ASSERT_OK_AND_ASSIGN(found, FindCheckpoint(fs_, request_));
  EXPECT_EQ(found->checkpoint.manifest.step, 30);
  EXPECT_TRUE(found->adopted);
}

TEST_F(CheckpointFinderTest, WithAllOfAnotherJobsGoneItNeverStartsFromScratch) {
  std::filesystem::remove_all(WriteOthers(90));
  Corrupt(WriteOthers(100));
  EXPECT_THAT(FindCheckpoint(fs_, request_),
              StatusIs(StatusCode::kDataLoss, HasSubstr("none of 2 checkpoints")));
  EXPECT_THAT(bad_, ElementsAre("100 DATA_LOSS", "90 NOT_FOUND"));
}

TEST_F(CheckpointFinderTest, AThirdJobsOneUnderThatNameIsRefused) {
  WriteOthers(100);
  request_.registered[0].job_id = 6;
  EXPECT_THAT(FindCheckpoint(fs_, request_),
              StatusIs(StatusCode::kFailedPrecondition,
                       HasSubstr("belongs to job 5 (digits), not to job 6 (digits)")));
}

TEST_F(CheckpointFinderTest, ABrokenUnregisteredOneIsPassedOver) {
  Write(10, 1, true);
  Corrupt(Write(20, 2, false));
  ASSERT_OK_AND_ASSIGN(const auto found, FindCheckpoint(fs_, request_));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->checkpoint.manifest.step, 10);
  EXPECT_THAT(bad_, ElementsAre("20 DATA_LOSS"));
}

TEST_F(CheckpointFinderTest, WithOnlyABrokenUnregisteredOneARunStartsAnew) {
  Corrupt(Write(20, 2, false));
  ASSERT_OK_AND_ASSIGN(const auto found, FindCheckpoint(fs_, request_));
  EXPECT_FALSE(found.has_value());
}

TEST_F(CheckpointFinderTest, UnregisteredOnesOfAnOlderAttemptOrALowerStepAreLeftAlone) {
  Write(30, 1, false);  // attempt 2 went on from step 10: this history was left
  Write(10, 1, true);
  Write(20, 2, true);
  Write(15, 2, false);
  ASSERT_OK_AND_ASSIGN(const auto found, FindCheckpoint(fs_, request_));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->checkpoint.manifest.step, 20);
}

TEST_F(CheckpointFinderTest, FoldersOfThisOrALaterAttemptAreNotAdopted) {
  Write(40, 3, false);
  Write(50, 4, false);
  ASSERT_OK_AND_ASSIGN(const auto found, FindCheckpoint(fs_, request_));
  EXPECT_FALSE(found.has_value());
}

TEST_F(CheckpointFinderTest, AnotherJobsFolderIsNotOurs) {
  Write(20, 2, false, /*job_id=*/8);
  ASSERT_OK_AND_ASSIGN(const auto found, FindCheckpoint(fs_, request_));
  EXPECT_FALSE(found.has_value());
  EXPECT_THAT(bad_, ElementsAre("20 FAILED_PRECONDITION"));
  Write(30, 2, true, /*job_id=*/8);
  EXPECT_THAT(FindCheckpoint(fs_, request_),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("belongs to job 8")));
}

TEST_F(CheckpointFinderTest, ACandidateUnderAWrongStepIsRefused) {
  Write(20, 2, true);
  request_.registered[0].step = 21;
  EXPECT_THAT(FindCheckpoint(fs_, request_),
              StatusIs(StatusCode::kDataLoss, HasSubstr("is of step 20, want 21")));
}

TEST_F(CheckpointFinderTest, StoppingIsNotABrokenCheckpoint) {
  Write(10, 1, true);
  request_.progress = [](uint64_t, uint64_t) { return false; };
  EXPECT_THAT(FindCheckpoint(fs_, request_), StatusIs(StatusCode::kCancelled));
  EXPECT_THAT(bad_, ElementsAre());
}

}  // namespace
}  // namespace muster
