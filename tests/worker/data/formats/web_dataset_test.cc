#include "worker/data/formats/web_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_format.h"
#include "tests/fuzz/memory_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/data/formats/support/broken_files.h"
#include "tests/worker/data/formats/support/format_bytes.h"
#include "tests/worker/data/formats/support/sample_list.h"
#include "tests/worker/data/formats/support/watched_reads.h"

namespace muster::worker {
namespace {

using ::muster::testing::ForEachBitFlip;
using ::muster::testing::ForEachTruncation;
using ::muster::testing::MemoryFileSystem;
using ::muster::testing::PaxRecord;
using ::muster::testing::StatusIs;
using ::muster::testing::TarEnd;
using ::muster::testing::TarFile;
using ::muster::testing::TarHeader;
using ::muster::testing::TempDir;
using ::muster::testing::WatchedReads;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

class WebDatasetTest : public ::testing::Test {
 protected:
  absl::StatusOr<IndexReport> Index(const std::string& tar) {
    files_.files()["/t.tar"] = tar;
    list_ = SampleList();
    return IndexWebDataset(files_, "/t.tar", options_, list_);
  }
  // Of a tar that is whole.
  std::vector<WholeSample> Samples(const std::string& members) {
    report_ = Index(members + TarEnd());
    EXPECT_OK(report_);
    const auto whole = list_.Read(files_);
    EXPECT_OK(whole);
    return whole.ok() ? *whole : std::vector<WholeSample>();
  }
  void ExpectRefused(const std::string& members, const char* what) {
    EXPECT_THAT(Index(members + TarEnd()), StatusIs(kInvalid, HasSubstr(what)));
  }

  MemoryFileSystem files_;
  WebDatasetOptions options_;
  SampleList list_;
  absl::StatusOr<IndexReport> report_;
};

TEST_F(WebDatasetTest, GivesInputsWithLabelsOfClsAndJson) {
  EXPECT_THAT(Samples(TarFile("a/1.jpg", "first") + TarFile("a/1.cls", "7\n") +
                      TarFile("a/2.json", R"({"label": 3, "text": "x"})") +
                      TarFile("a/2.PNG", "second") + TarFile("3.jpeg", std::string(513, 'x'))),
              ElementsAre(WholeSample{"3", std::string(513, 'x'), kNoLabel},
                          WholeSample{"a/1", "first", 7}, WholeSample{"a/2", "second", 3}));
  EXPECT_EQ(report_->samples, 3u);
  EXPECT_EQ(report_->left_out, 0u);
}

TEST_F(WebDatasetTest, CallsSamplesByThePathUpToTheFirstDot) {
  EXPECT_THAT(Samples(TarFile("./x.y/1.jpg", "p") + TarFile("./x.y/1.seg.png", "mask") +
                      TarFile("./x.y/._1.jpg", "apple") + TarFile("./x.y/", "", '5')),
              ElementsAre(WholeSample{"x.y/1", "p", kNoLabel}));
}

TEST_F(WebDatasetTest, TakesTheExtensionThatIsAskedFor) {
  options_.extensions = {"seg.png"};
  EXPECT_THAT(Samples(TarFile("1.jpg", "p") + TarFile("1.seg.png", "mask")),
              ElementsAre(WholeSample{"1", "mask", kNoLabel}));
}

TEST_F(WebDatasetTest, ReadsLongNames) {
  const std::string folder(120, 'd');
  const std::string path = folder + "/" + std::string(150, 'n');
  EXPECT_THAT(Samples(TarHeader({.name = "1.jpg", .prefix = folder})),
              ElementsAre(WholeSample{folder + "/1", "", kNoLabel}));
  EXPECT_THAT(Samples(TarFile("././@LongLink", path + ".jpg" + '\0', 'L') +
                      TarFile("././@LongLink", std::string("target\0", 7), 'K') +
                      TarFile("short.jpg", "gnu")),
              ElementsAre(WholeSample{path, "gnu", kNoLabel}));
  EXPECT_THAT(Samples(TarFile("pax", PaxRecord("path", path + ".jpg"), 'x') +
                      TarFile("short.jpg", "pax") + TarFile("next.jpg", "none")),
              ElementsAre(WholeSample{path, "pax", kNoLabel}, WholeSample{"next", "none", -1}));
  // GNU's header has other things where ustar has the prefix.
  EXPECT_THAT(Samples(TarHeader({.name = "1.jpg", .prefix = "00000000000", .gnu = true})),
              ElementsAre(WholeSample{"1", "", kNoLabel}));
}

TEST_F(WebDatasetTest, ReadsSizesOfPaxRecordsAndOfBase256) {
  const std::string body = std::string(3, 'b') + std::string(509, '\0');
  EXPECT_THAT(Samples(TarFile("pax", PaxRecord("mtime", "1.5") + PaxRecord("size", "3"), 'x') +
                      TarHeader({.name = "1.jpg"}) + body),
              ElementsAre(WholeSample{"1", "bbb", kNoLabel}));
  EXPECT_THAT(
      Samples(TarHeader({.name = "1.jpg",
                         .size_field = std::string("\x80") + std::string(10, '\0') + '\x03'}) +
              body),
      ElementsAre(WholeSample{"1", "bbb", kNoLabel}));
  ExpectRefused(TarHeader({.name = "1.jpg", .size_field = std::string(12, '\xff')}), "no size");
  ExpectRefused(TarHeader({.name = "1.jpg", .size_field = "\x80" + std::string(11, '\x7f')}),
                "no size");
  ExpectRefused(TarHeader({.name = "1.jpg", .size_field = "12x"}), "no size");
  ExpectRefused(
      TarFile("pax", PaxRecord("size", "9223372036854775807"), 'x') + TarHeader({.name = "1.jpg"}),
      "no number");
  ExpectRefused(TarHeader({.name = "1.jpg", .size = (uint64_t{1} << 32)}), "cut off");
}

TEST_F(WebDatasetTest, AppliesGlobalRecordsUntilTheyAreTakenBack) {
  const std::string body = std::string(2, 'b') + std::string(510, '\0');
  EXPECT_THAT(Samples(TarFile("g", PaxRecord("comment", "c") + PaxRecord("size", "2"), 'g') +
                      TarHeader({.name = "1.jpg"}) + body + TarHeader({.name = "2.jpg"}) + body +
                      TarFile("g", PaxRecord("size", ""), 'g') + TarFile("3.jpg", "three")),
              ElementsAre(WholeSample{"1", "bb", -1}, WholeSample{"2", "bb", -1},
                          WholeSample{"3", "three", -1}));
}

TEST_F(WebDatasetTest, RefusesBrokenPaxRecords) {
  for (const char* record : {"x path=a\n", "9 path\n", "99 path=a\n", "10 path=ab", "3 \n",
                             "0 a=\n", "18446744073709551616 a=b\n", "8 patha\n"}) {
    ExpectRefused(TarFile("pax", record, 'x') + TarFile("1.jpg", ""), "PAX record");
  }
  ExpectRefused(TarFile("pax", std::string(3 << 20, '1'), 'x') + TarFile("1.jpg", ""), "at most");
}

TEST_F(WebDatasetTest, RefusesWhatIsNotInOnePiece) {
  ExpectRefused(TarFile("1.jpg", "", 'S'), "--sparse");
  ExpectRefused(TarFile("pax", PaxRecord("GNU.sparse.major", "1"), 'x') + TarFile("1.jpg", ""),
                "--sparse");
  ExpectRefused(TarFile("1.jpg", "", 'M'), "volume");
  EXPECT_THAT(Index("\x1f\x8b" + std::string(2000, 'z')), StatusIs(kInvalid, HasSubstr("gunzip")));
}

TEST_F(WebDatasetTest, LeavesOutLinksAndSamplesWithoutInput) {
  EXPECT_THAT(Samples(TarFile("1.jpg", "", '1') + TarFile("2.jpg", "", '2') +
                      TarFile("3.txt", "t") + TarFile("fifo", "", '6') + TarFile("4.jpg", "p")),
              ElementsAre(WholeSample{"4", "p", kNoLabel}));
  EXPECT_EQ(report_->left_out, 3u);
  EXPECT_THAT(report_->reasons, ElementsAre(HasSubstr("1.jpg is a link"),
                                            HasSubstr("2.jpg is a link"), HasSubstr("sample 3")));
}

TEST_F(WebDatasetTest, RefusesKeysThatComeAgain) {
  ExpectRefused(TarFile("1.jpg", "") + TarFile("2.jpg", "") + TarFile("1.cls", "1"), "comes again");
  ExpectRefused(TarFile("1.jpg", "") + TarFile("1.jpg", ""), "second input");
  ExpectRefused(TarFile("1.jpg", "") + TarFile("1.png", ""), "second input");
}

TEST_F(WebDatasetTest, RefusesLabelsThatAreNone) {
  for (const char* label : {"", "x", "1.5", "-2", "99999999999999999999"}) {
    EXPECT_THAT(Index(TarFile("1.cls", label) + TarEnd()), StatusIs(kInvalid)) << label;
  }
  for (const char* json : {"", "{", R"({"label": "1"})", R"({"label": 1.5})",
                           R"({"label": 18446744073709551615})", R"({"label": -7})"}) {
    EXPECT_THAT(Index(TarFile("1.json", json) + TarEnd()), StatusIs(kInvalid)) << json;
  }
  ExpectRefused(TarFile("1.cls", std::string(65, '1')), "more than the 64");
  ExpectRefused(TarFile("1.cls", "1") + TarFile("1.json", R"({"label": 2})"), "two labels");
  const std::string nested = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_THAT(Samples(TarFile("1.jpg", "p") + TarFile("1.json", "[1]") + TarFile("2.jpg", "q") +
                      TarFile("2.json", R"({"x": )" + nested + R"(, "label": 4})")),
              ElementsAre(WholeSample{"1", "p", kNoLabel}, WholeSample{"2", "q", 4}));
  ExpectRefused(TarFile("2.json", std::string(100'000, '[')), "no JSON");
}

TEST_F(WebDatasetTest, RefusesWhatFollowsTheEnd) {
  EXPECT_THAT(Index(TarFile("1.jpg", "") + TarEnd() + TarFile("2.jpg", "") + TarEnd()),
              StatusIs(kInvalid, HasSubstr("several archives")));
  EXPECT_THAT(Index(""), StatusIs(kInvalid, HasSubstr("/t.tar at byte 0")));
  EXPECT_OK(Index(TarFile("1.jpg", "") + TarEnd() + std::string(10'240, '\0')));
}

TEST_F(WebDatasetTest, NamesThePlaceOfAWrongChecksum) {
  std::string tar = TarFile("1.jpg", "first") + TarFile("2.jpg", "second") + TarEnd();
  tar[1024 + 3] ^= 1;
  EXPECT_THAT(Index(tar), StatusIs(kInvalid, HasSubstr("/t.tar at byte 1024: ")));
}

TEST_F(WebDatasetTest, RefusesEveryTruncation) {
  const std::string tar = TarFile("pax", PaxRecord("path", "long.jpg"), 'x') +
                          TarFile("1.jpg", std::string(600, 'x')) + TarFile("1.cls", "1") +
                          TarEnd();
  ForEachTruncation(tar, [&](const std::string& cut) {
    EXPECT_THAT(Index(cut), StatusIs(kInvalid, HasSubstr("/t.tar at byte "))) << cut.size();
  });
}

TEST_F(WebDatasetTest, IsRightOrRefusesAfterAnyBitFlip) {
  const std::string tar =
      TarFile("1.jpg", "first") + TarFile("1.cls", "1") + TarFile("2.jpg", "second") + TarEnd();
  ASSERT_OK(Index(tar));
  const std::vector<ListedSample> right = list_.samples();
  ForEachBitFlip(tar, [&](const std::string& broken, size_t at) {
    if (!Index(broken).ok()) return;
    std::vector<ListedSample> found = list_.samples();
    // Nothing guards what a member holds.
    if (at == 1024 + 512) found[0].label = 1;
    EXPECT_EQ(found, right) << at;
  });
}

TEST_F(WebDatasetTest, GivesTheErrorsOfEachRead) {
  std::string tar;
  for (int i = 0; i < 20; ++i) tar += TarFile(absl::StrCat(i, ".jpg"), std::string(5000, 'x'));
  files_.files()["/t.tar"] = tar + TarEnd();
  options_.window = {512, 512};
  int n = 1;
  while (true) {
    WatchedReads watched(files_);
    watched.FailAt(n++);
    SampleList list;
    const auto report = IndexWebDataset(watched, "/t.tar", options_, list);
    if (report.ok()) break;
    ASSERT_THAT(report, StatusIs(absl::StatusCode::kUnavailable));
  }
  EXPECT_GT(n, 20);
}

TEST_F(WebDatasetTest, ReadsMuchAtOnceWhereMembersAreSmallAndLittleWhereTheyAreLarge) {
  std::string small, large;
  for (int i = 0; i < 2000; ++i) small += TarFile(absl::StrCat(i, ".jpg"), "x");
  for (int i = 0; i < 20; ++i) {
    large += TarFile(absl::StrCat(i, ".jpg"), std::string(300'000, 'x'));
  }
  files_.files()["/s.tar"] = small + TarEnd();
  files_.files()["/l.tar"] = large + TarEnd();
  WatchedReads of_small(files_), of_large(files_);
  ASSERT_OK(IndexWebDataset(of_small, "/s.tar", options_, list_));
  ASSERT_OK(IndexWebDataset(of_large, "/l.tar", options_, list_));
  EXPECT_LT(of_small.reads(), 12);
  EXPECT_LT(of_large.bytes(), large.size() / 10);
}

TEST(WebDatasetOnDisk, ReadsMembersOfMoreThanEightGigabytes) {
  TempDir dir;
  const std::string path = dir / "big.tar";
  const uint64_t size = (uint64_t{9} << 30) + 512;  // too large for 11 octal digits
  std::string field = "\x80" + std::string(11, '\0');
  for (int i = 0; i < 8; ++i) field[11 - i] = static_cast<char>(size >> (8 * i));
  std::ofstream(path, std::ios::binary) << TarHeader({.name = "1.jpg", .size_field = field});
  ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(512 + size)), 0);
  std::ofstream(path, std::ios::binary | std::ios::app) << TarFile("2.jpg", "p") << TarEnd();
  SampleList list;
  ASSERT_OK(IndexWebDataset(PosixFileSystem(), path, {}, list));
  EXPECT_THAT(list.samples(), ElementsAre(ListedSample{"1", 0, 512, size, -1},
                                          ListedSample{"2", 0, size + 1024, 1, -1}));
}

}  // namespace
}  // namespace muster::worker
