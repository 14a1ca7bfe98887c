#include "worker/data/formats/tf_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fuzz/memory_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/data/formats/support/broken_files.h"
#include "tests/worker/data/formats/support/format_bytes.h"
#include "tests/worker/data/formats/support/sample_list.h"
#include "tests/worker/data/formats/support/watched_reads.h"
#include "worker/data/formats/parse/crc32c.h"

namespace muster::worker {
namespace {

using ::muster::testing::BytesFeature;
using ::muster::testing::ForEachBitFlip;
using ::muster::testing::ForEachTruncation;
using ::muster::testing::IntegerFeature;
using ::muster::testing::LittleEndianBytes;
using ::muster::testing::MemoryFileSystem;
using ::muster::testing::ProtoBytes;
using ::muster::testing::ProtoNumber;
using ::muster::testing::ProtoVarint;
using ::muster::testing::StatusIs;
using ::muster::testing::TfExampleBytes;
using ::muster::testing::TfRecordBytes;
using ::muster::testing::WatchedReads;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFile[] = "/data/train-00000-of-00002";
constexpr auto kInvalidRecord = absl::StatusCode::kInvalidArgument;

std::string NamedExample(const std::string& name, const std::string& picture, int64_t label) {
  return TfExampleBytes({{"image/encoded", BytesFeature(picture)},
                         {"image/filename", BytesFeature(name)},
                         {"image/class/label", IntegerFeature(label)}});
}

class TfRecordTest : public ::testing::Test {
 protected:
  absl::StatusOr<IndexReport> Index(const std::string& bytes) {
    files_.files()[kFile] = bytes;
    list_ = SampleList();
    return IndexTfRecords(files_, kFile, options_, list_);
  }
  std::vector<WholeSample> Samples(const std::string& bytes) {
    EXPECT_OK(Index(bytes));
    const auto whole = list_.Read(files_);
    EXPECT_OK(whole);
    return whole.ok() ? *whole : std::vector<WholeSample>();
  }
  void ExpectRefused(const std::string& record, const char* what) {
    EXPECT_THAT(Index(TfRecordBytes(record)), StatusIs(kInvalidRecord, HasSubstr(what)));
  }

  MemoryFileSystem files_;
  TfRecordOptions options_;
  SampleList list_;
};

TEST_F(TfRecordTest, GivesPicturesLabelsAndKeysOfExamples) {
  EXPECT_THAT(Samples(TfRecordBytes(NamedExample("n01/2.JPEG", "second", 5)) +
                      TfRecordBytes(NamedExample("n01/1.JPEG", std::string(70'000, 'x'), 4))),
              ElementsAre(WholeSample{"n01/1", std::string(70'000, 'x'), 4},
                          WholeSample{"n01/2", "second", 5}));
}

TEST_F(TfRecordTest, CallsRecordsByTheirKeyOrTheirNumber) {
  EXPECT_THAT(Samples(TfRecordBytes(TfExampleBytes({{"__key__", BytesFeature("a.b")},
                                                    {"image/encoded", BytesFeature("1")}})) +
                      TfRecordBytes(TfExampleBytes({{"image/encoded", BytesFeature("2")}}))),
              ElementsAre(WholeSample{"a.b", "1", kNoLabel},
                          WholeSample{"train-00000-of-00002:00000001", "2", kNoLabel}));
}

TEST_F(TfRecordTest, TakesTheFeaturesThatAreAskedFor) {
  options_.features = {"jpg", "cls", "path", "id"};
  EXPECT_THAT(Samples(TfRecordBytes(TfExampleBytes({{"cls", IntegerFeature(300, false)},
                                                    {"id", BytesFeature("k")},
                                                    {"image/encoded", BytesFeature("no")},
                                                    {"jpg", BytesFeature("yes")}}))),
              ElementsAre(WholeSample{"k", "yes", 300}));
}

TEST_F(TfRecordTest, ReadsWhatOtherWritersMayWrite) {
  // A key behind its value, unknown fields, two messages of features, a label of -1.
  const std::string input = ProtoBytes(2, BytesFeature("picture")) + ProtoBytes(1, "image/encoded");
  const std::string label = ProtoBytes(1, "image/class/label") + ProtoBytes(2, IntegerFeature(-1));
  const std::string example = ProtoNumber(9, 1) + ProtoVarint(10 << 3 | 5) + "four" +
                              ProtoVarint(11 << 3 | 1) + "eightbyt" + ProtoBytes(12, "more") +
                              ProtoBytes(1, ProtoBytes(1, input)) + ProtoBytes(1, "") +
                              ProtoBytes(1, ProtoBytes(1, label));
  EXPECT_THAT(Samples(TfRecordBytes(example)),
              ElementsAre(WholeSample{"train-00000-of-00002:00000000", "picture", kNoLabel}));
}

TEST_F(TfRecordTest, SaysWhatFeaturesThereAreWhereNoneIsThePicture) {
  ExpectRefused(TfExampleBytes({{"image", BytesFeature("x")}, {"label", IntegerFeature(1)}}),
                "no feature image/encoded; it has image, label");
  ExpectRefused("", "it has none");
}

TEST_F(TfRecordTest, RefusesFeaturesOfAnotherKind) {
  const auto with_label = [](const std::string& feature) {
    return TfExampleBytes({{"image/encoded", BytesFeature("x")}, {"image/class/label", feature}});
  };
  ExpectRefused(with_label(BytesFeature("3")), "holds bytes, want an integer");
  ExpectRefused(with_label(ProtoBytes(2, "ffff")), "holds floats");
  ExpectRefused(with_label(IntegerFeature(-2)), "is -2");
  ExpectRefused(with_label(ProtoBytes(3, ProtoBytes(1, ProtoVarint(1) + ProtoVarint(2)))),
                "has 2 values");
  ExpectRefused(with_label(ProtoBytes(3, "")), "has 0 values");
  ExpectRefused(with_label(""), "no single list");
  ExpectRefused(TfExampleBytes({{"image/encoded", IntegerFeature(1)}}), "want bytes");
  ExpectRefused(TfExampleBytes({{"image/encoded", BytesFeature("x") + BytesFeature("y")}}),
                "no single list");
  ExpectRefused(
      TfExampleBytes({{"image/encoded", BytesFeature("x")}, {"image/encoded", BytesFeature("y")}}),
      "twice");
  ExpectRefused(TfExampleBytes({{"image/encoded", BytesFeature("x")},
                                {"image/filename", BytesFeature(std::string(5000, 'n'))}}),
                "name of 5000 bytes");
}

TEST_F(TfRecordTest, RefusesWhatIsNoMessage) {
  ExpectRefused("raw bytes of something", "byte ");
  ExpectRefused(std::string(20, '\xff'), "no number");
  ExpectRefused(ProtoVarint(1 << 3 | 3), "wire type 3");
  ExpectRefused(ProtoVarint(0 << 3 | 2), "field 0");
  ExpectRefused(ProtoVarint(1 << 3 | 2), "without its length");
  ExpectRefused(ProtoVarint(1 << 3 | 0), "without its number");
  ExpectRefused(ProtoVarint(1 << 3 | 2) + ProtoVarint(~uint64_t{0}), "are left");
  ExpectRefused(ProtoVarint(1 << 3 | 2) + ProtoVarint(1) + "", "are left");
  ExpectRefused(ProtoVarint(1 << 3) + std::string(9, '\xff') + '\x02', "no number");
}

TEST_F(TfRecordTest, RefusesAWrongLength) {
  std::string bytes = TfRecordBytes(NamedExample("1", "p", 1));
  bytes[0] ^= 1;
  EXPECT_THAT(Index(bytes), StatusIs(kInvalidRecord, HasSubstr("checksum is wrong")));
  EXPECT_THAT(Index("\x1f\x8b" + std::string(100, 'z')),
              StatusIs(kInvalidRecord, HasSubstr("compress")));
  // A length that its checksum is right for, and no file has.
  for (const uint64_t length : {~uint64_t{0}, ~uint64_t{0} - 15, uint64_t{1} << 62, uint64_t{1}}) {
    const std::string head = LittleEndianBytes(length, 8);
    EXPECT_THAT(Index(head + LittleEndianBytes(MaskCrc32c(Crc32c(head)), 4) + "1234"),
                StatusIs(kInvalidRecord, HasSubstr("cut off")));
  }
}

TEST_F(TfRecordTest, FindsDamageOnlyWhereItIsAskedTo) {
  std::string bytes = TfRecordBytes(NamedExample("1", std::string(3 << 20, 'p'), 1));
  bytes[1 << 20] ^= 1;
  EXPECT_OK(Index(bytes));
  options_.verify = true;
  EXPECT_THAT(Index(bytes), StatusIs(kInvalidRecord, HasSubstr("is damaged")));
  bytes[1 << 20] ^= 1;
  EXPECT_OK(Index(bytes));
}

TEST_F(TfRecordTest, RefusesEveryTruncationThatIsNotBetweenRecords) {
  const std::string first = TfRecordBytes(NamedExample("1", "first", 1));
  const std::string both = first + TfRecordBytes(NamedExample("2", "second", 2));
  ForEachTruncation(both, [&](const std::string& cut) {
    const auto report = Index(cut);
    if (cut.empty() || cut.size() == first.size()) {
      EXPECT_OK(report);
    } else {
      EXPECT_THAT(report, StatusIs(kInvalidRecord, HasSubstr(kFile))) << cut.size();
    }
  });
}

TEST_F(TfRecordTest, IsRightOrRefusesAfterAnyBitFlipWhereItVerifies) {
  const std::string bytes =
      TfRecordBytes(NamedExample("1", "first", 1)) + TfRecordBytes(NamedExample("2", "second", 2));
  options_.verify = true;
  ForEachBitFlip(bytes, [&](const std::string& broken, size_t at) {
    EXPECT_THAT(Index(broken), StatusIs(kInvalidRecord)) << at;
  });
  options_.verify = false;
  ForEachBitFlip(bytes, [&](const std::string& broken, size_t at) {
    const auto report = Index(broken);
    EXPECT_TRUE(report.ok() || report.status().code() == kInvalidRecord) << at << report.status();
  });
}

TEST_F(TfRecordTest, DoesNotReadThePictures) {
  std::string bytes;
  for (int i = 0; i < 20; ++i) {
    bytes += TfRecordBytes(NamedExample(absl::StrCat(i), std::string(500'000, 'x'), i));
  }
  files_.files()[kFile] = bytes;
  WatchedReads watched(files_);
  ASSERT_OK(IndexTfRecords(watched, kFile, options_, list_));
  EXPECT_EQ(list_.samples().size(), 20u);
  EXPECT_LT(watched.bytes(), bytes.size() / 10);
}

}  // namespace
}  // namespace muster::worker
