#include "common/ckpt/verifier.h"

#include <filesystem>
#include <fstream>

#include "tests/support/checkpoint_builder.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster {
namespace {

using ::absl::StatusCode;
using ::muster::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

class VerifierTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::CheckpointSpec spec;
    spec.files.push_back({"big", std::string(2 * kHashBlockBytes + 100, 'b')});
    ASSERT_OK_AND_ASSIGN(written_, testing::WriteCheckpoint(fs_, dir_.path(), spec));
  }

  absl::Status Verify() { return VerifyCheckpoint(fs_, written_.path, written_.manifest_sha256); }

  void Overwrite(const std::string& file, uint64_t offset, char byte) {
    std::fstream stream(written_.path + "/" + file,
                        std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(static_cast<std::streamoff>(offset));
    stream.put(byte);
  }

  testing::TempDir dir_;
  FileSystem& fs_ = PosixFileSystem();
  testing::WrittenCheckpoint written_;
};

TEST_F(VerifierTest, AWholeCheckpointPassesWithItsManifest) {
  ASSERT_OK_AND_ASSIGN(const VerifiedCheckpoint checkpoint,
                       ReadAndVerifyCheckpoint(fs_, written_.path, written_.manifest_sha256));
  EXPECT_EQ(checkpoint.manifest.step, 10);
  EXPECT_EQ(checkpoint.manifest_sha256, written_.manifest_sha256);
  EXPECT_OK(VerifyCheckpoint(fs_, written_.path, ""));
}

TEST_F(VerifierTest, AFlippedByteNamesFileAndBlock) {
  Overwrite("big", 2 * kHashBlockBytes + 5, 'x');
  EXPECT_THAT(Verify(), StatusIs(StatusCode::kDataLoss,
                                 AllOf(HasSubstr("big, block 2"), HasSubstr(written_.path))));
  Overwrite("big", kHashBlockBytes, 'x');
  EXPECT_THAT(Verify(), StatusIs(StatusCode::kDataLoss, HasSubstr("big, block 1")));
}

TEST_F(VerifierTest, AShortOrLongFileIsNamedWithItsSizes) {
  std::filesystem::resize_file(written_.path + "/big", kHashBlockBytes);
  EXPECT_THAT(Verify(),
              StatusIs(StatusCode::kDataLoss, HasSubstr("big has 4194304 bytes, want 8388708")));
  std::filesystem::resize_file(written_.path + "/big", 2 * kHashBlockBytes + 101);
  EXPECT_THAT(Verify(), StatusIs(StatusCode::kDataLoss, HasSubstr("big has 8388709 bytes")));
}

TEST_F(VerifierTest, AMissingFileIsNotFound) {
  std::filesystem::remove(written_.path + "/state.json");
  EXPECT_THAT(Verify(), StatusIs(StatusCode::kNotFound, HasSubstr("state.json")));
}

TEST_F(VerifierTest, AFolderWithoutManifestIsNotFound) {
  std::filesystem::remove(written_.path + "/" + kManifestFile);
  EXPECT_THAT(Verify(), StatusIs(StatusCode::kNotFound, HasSubstr(kManifestFile)));
  std::filesystem::remove_all(written_.path);
  EXPECT_THAT(Verify(), StatusIs(StatusCode::kNotFound, HasSubstr(written_.path)));
}

TEST_F(VerifierTest, AnotherManifestThanTheCommittedOneIsCorrupt) {
  EXPECT_THAT(VerifyCheckpoint(fs_, written_.path, std::string(64, '0')),
              StatusIs(StatusCode::kDataLoss, HasSubstr("SHA-256")));
  Overwrite(kManifestFile, 0, '[');
  EXPECT_THAT(Verify(), StatusIs(StatusCode::kDataLoss, HasSubstr("SHA-256")));
  EXPECT_THAT(VerifyCheckpoint(fs_, written_.path, ""),
              StatusIs(StatusCode::kDataLoss, HasSubstr("not JSON")));
}

TEST_F(VerifierTest, AFolderInTheWayOfAFileIsCorrupt) {
  std::filesystem::remove(written_.path + "/state.json");
  std::filesystem::create_directory(written_.path + "/state.json");
  EXPECT_THAT(Verify(), StatusIs(StatusCode::kDataLoss, HasSubstr("not a regular file")));
}

TEST_F(VerifierTest, AWrongWholeHashIsSeenThoughTheBlocksFit) {
  const std::string manifest_path = written_.path + "/" + kManifestFile;
  ASSERT_OK_AND_ASSIGN(const std::string text, fs_.ReadFile(manifest_path, kMaxManifestBytes));
  ASSERT_OK_AND_ASSIGN(Manifest manifest, DecodeManifest(text));
  manifest.files[2].hash[0] ^= 1;
  std::filesystem::remove(manifest_path);
  ASSERT_OK(WriteFileAtomically(fs_, manifest_path, EncodeManifest(manifest)));
  EXPECT_THAT(VerifyCheckpoint(fs_, written_.path, ""),
              StatusIs(StatusCode::kDataLoss, HasSubstr("big has a wrong hash as a whole")));
}

TEST_F(VerifierTest, AnotherFormatVersionIsNotCalledCorrupt) {
  Manifest manifest;
  manifest.format_version = 9;
  ASSERT_OK(
      WriteFileAtomically(fs_, written_.path + "/" + kManifestFile, EncodeManifest(manifest)));
  EXPECT_THAT(VerifyCheckpoint(fs_, written_.path, ""), StatusIs(StatusCode::kFailedPrecondition));
}

TEST_F(VerifierTest, ProgressRisesToTheTotalAndCanStop) {
  std::vector<uint64_t> seen;
  uint64_t total = 0;
  EXPECT_OK(VerifyCheckpoint(fs_, written_.path, "", [&](uint64_t done, uint64_t all) {
    seen.push_back(done);
    total = all;
    return true;
  }));
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_EQ(seen.back(), total);
  EXPECT_THAT(VerifyCheckpoint(fs_, written_.path, "", [](uint64_t, uint64_t) { return false; }),
              StatusIs(StatusCode::kCancelled));
}

}  // namespace
}  // namespace muster
