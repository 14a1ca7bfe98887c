#include "worker/data/formats/record_io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <limits>

#include "tests/fuzz/memory_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/support/unlistable_files.h"
#include "tests/worker/data/formats/support/broken_files.h"
#include "tests/worker/data/formats/support/format_bytes.h"
#include "tests/worker/data/formats/support/sample_list.h"

namespace muster::worker {
namespace {

using ::muster::testing::ForEachBitFlip;
using ::muster::testing::ForEachTruncation;
using ::muster::testing::ImageRecord;
using ::muster::testing::LittleEndianBytes;
using ::muster::testing::MemoryFileSystem;
using ::muster::testing::RecordIoBytes;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::muster::testing::UnlistableFiles;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint32_t kMagic = 0xced7230a;
constexpr auto kInvalidPart = absl::StatusCode::kInvalidArgument;

class RecordIoTest : public ::testing::Test {
 protected:
  absl::StatusOr<IndexReport> Index(const std::string& bytes) {
    files_.files()["/data/t.rec"] = bytes;
    list_ = SampleList();
    return IndexRecordIo(files_, "/data/t.rec", {}, list_);
  }
  std::vector<WholeSample> Samples(const std::string& bytes) {
    report_ = Index(bytes);
    EXPECT_OK(report_);
    const auto whole = list_.Read(files_);
    EXPECT_OK(whole);
    return whole.ok() ? *whole : std::vector<WholeSample>();
  }
  static std::string Part(uint32_t kind, const std::string& bytes) {
    return LittleEndianBytes(kMagic, 4) +
           LittleEndianBytes(kind << 29 | static_cast<uint32_t>(bytes.size()), 4) + bytes +
           std::string((4 - bytes.size() % 4) % 4, '\0');
  }

  MemoryFileSystem files_;
  SampleList list_;
  absl::StatusOr<IndexReport> report_;
};

TEST_F(RecordIoTest, AnIdxThatIsDeniedIsNotThere) {
  const TempDir dir;
  UnlistableFiles files;
  ASSERT_OK(WriteFileAtomically(PosixFileSystem(), dir / "t.rec",
                                RecordIoBytes(ImageRecord({3}, "abcde"))));
  const absl::StatusOr<IndexReport> report = IndexRecordIo(files, dir / "t.rec", {}, list_);
  ASSERT_OK(report);
  EXPECT_EQ(list_.samples().front().key, "t.rec:00000000");
}

TEST_F(RecordIoTest, GivesPicturesAndLabels) {
  EXPECT_THAT(Samples(RecordIoBytes(ImageRecord({3}, "abcde")) +
                      RecordIoBytes(ImageRecord({7, 0.5, 0.25}, "second"))),
              ElementsAre(WholeSample{"t.rec:00000000", "abcde", 3},
                          WholeSample{"t.rec:00000001", "second", 7}));
}

TEST_F(RecordIoTest, TakesKeysFromTheIdx) {
  const std::string first = RecordIoBytes(ImageRecord({3}, "abcde"));
  const std::string second = RecordIoBytes(ImageRecord({4}, "fgh"));
  files_.files()["/data/t.idx"] = absl::StrCat("dogs/9\t", first.size(), "\r\n", "cats/1\t0\n");
  EXPECT_THAT(Samples(first + second),
              ElementsAre(WholeSample{"cats/1", "abcde", 3}, WholeSample{"dogs/9", "fgh", 4}));
  files_.files()["/data/t.idx"] = absl::StrCat("9\t", first.size(), "\n");
  EXPECT_THAT(Samples(first + second), ElementsAre(WholeSample{"9", "fgh", 4}));
  EXPECT_THAT(report_->reasons, ElementsAre(HasSubstr("not named by the .idx")));
}

TEST_F(RecordIoTest, RefusesAnIdxOfAnotherFile) {
  const std::string first = RecordIoBytes(ImageRecord({3}, "abcde"));
  for (const char* idx : {"1\t4\n", "1\t0\n2\t4096\n", "1\t0\n2\t0\n", "1 0\n", "1\t-4\n", "\t0\n",
                          "1\t99999999999999999999\n"}) {
    files_.files()["/data/t.idx"] = idx;
    EXPECT_THAT(Index(first), StatusIs(kInvalidPart, HasSubstr("/data/t.idx"))) << idx;
  }
}

TEST_F(RecordIoTest, LeavesOutARecordThatIsStoredInParts) {
  std::string picture = "12345678" + LittleEndianBytes(kMagic, 4) + "tail";
  picture += LittleEndianBytes(kMagic, 4);
  EXPECT_THAT(
      Samples(RecordIoBytes(ImageRecord({1}, picture)) + RecordIoBytes(ImageRecord({2}, "whole")) +
              RecordIoBytes(ImageRecord({3}, "x" + LittleEndianBytes(kMagic, 4)))),
      ElementsAre(WholeSample{"t.rec:00000001", "whole", 2},
                  WholeSample{"t.rec:00000002", "x" + LittleEndianBytes(kMagic, 4), 3}));
  EXPECT_THAT(report_->reasons, ElementsAre(HasSubstr("stored in 3 parts")));
}

// support/mxnet.rec was written by MXNet 1.9.1, which today's NumPy does not load.
TEST_F(RecordIoTest, ReadsWhatMxnetWrites) {
  const std::string path =
      absl::StrCat(::getenv("MUSTER_SOURCE_DIR"), "/tests/worker/data/formats/support/mxnet.rec");
  ASSERT_OK_AND_ASSIGN(const IndexReport report, IndexRecordIo(PosixFileSystem(), path, {}, list_));
  ASSERT_OK_AND_ASSIGN(const auto whole, list_.Read(PosixFileSystem()));
  EXPECT_THAT(whole,
              ElementsAre(WholeSample{"0", "one", 3}, WholeSample{"10", "four", 5},
                          WholeSample{"30", "odd" + LittleEndianBytes(kMagic, 4) + "magic", 2}));
  EXPECT_THAT(report.reasons, ElementsAre(HasSubstr("record 20 is stored in 2 parts")));
}

TEST_F(RecordIoTest, LeavesOutARecordWithoutAPicture) {
  EXPECT_THAT(Samples(RecordIoBytes(ImageRecord({1, 2}, ""))), IsEmpty());
  EXPECT_EQ(report_->left_out, 1u);
}

TEST_F(RecordIoTest, RefusesPartsInAWrongOrder) {
  const std::string whole = RecordIoBytes(ImageRecord({1}, "x"));
  EXPECT_THAT(Index(Part(2, "ab")), StatusIs(kInvalidPart, HasSubstr("beginning is missing")));
  EXPECT_THAT(Index(Part(3, "ab")), StatusIs(kInvalidPart, HasSubstr("beginning is missing")));
  EXPECT_THAT(Index(Part(1, "ab")), StatusIs(kInvalidPart, HasSubstr("last part is missing")));
  EXPECT_THAT(Index(Part(1, "ab") + whole), StatusIs(kInvalidPart, HasSubstr("within the parts")));
  EXPECT_THAT(Index(Part(5, "ab")), StatusIs(kInvalidPart, HasSubstr("unknown flag")));
}

TEST_F(RecordIoTest, RefusesLabelsThatAreNoClass) {
  for (const float label : {0.5f, -2.0f, 1e9f, std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity()}) {
    EXPECT_THAT(Index(RecordIoBytes(ImageRecord({label}, "x"))),
                StatusIs(kInvalidPart, HasSubstr("no class")));
  }
  EXPECT_THAT(Samples(RecordIoBytes(ImageRecord({-1}, "x"))),
              ElementsAre(WholeSample{"t.rec:00000000", "x", kNoLabel}));
  EXPECT_THAT(Index(RecordIoBytes(std::string(24, '\xff') + "x")),
              StatusIs(kInvalidPart, HasSubstr("do not fit")));
  EXPECT_THAT(Index(RecordIoBytes("short")), StatusIs(kInvalidPart, HasSubstr("no header")));
}

TEST_F(RecordIoTest, RefusesEveryTruncationThatIsNotBetweenRecords) {
  const std::string first = RecordIoBytes(ImageRecord({1}, "first"));
  const std::string second =
      RecordIoBytes(ImageRecord({2}, "12345678" + LittleEndianBytes(kMagic, 4) + "tail"));
  ForEachTruncation(first + second, [&](const std::string& cut) {
    const auto report = Index(cut);
    if (cut.empty() || cut.size() == first.size()) {
      EXPECT_OK(report);
    } else {
      EXPECT_THAT(report, StatusIs(kInvalidPart, HasSubstr("/data/t.rec at byte "))) << cut.size();
    }
  });
}

TEST_F(RecordIoTest, StaysInTheFileAfterAnyBitFlip) {
  const std::string bytes = RecordIoBytes(ImageRecord({1}, "first")) +
                            RecordIoBytes(ImageRecord({2, 3}, "second")) +
                            RecordIoBytes(ImageRecord({4}, "third"));
  ForEachBitFlip(bytes, [&](const std::string& broken, size_t at) {
    const auto report = Index(broken);
    EXPECT_TRUE(report.ok() || report.status().code() == kInvalidPart) << at << report.status();
  });
}

}  // namespace
}  // namespace muster::worker
