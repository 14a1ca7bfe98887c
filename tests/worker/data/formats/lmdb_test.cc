#include "worker/data/formats/lmdb.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "absl/strings/str_format.h"
#include "tests/fuzz/memory_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/data/formats/support/broken_files.h"
#include "tests/worker/data/formats/support/format_bytes.h"
#include "tests/worker/data/formats/support/lmdb_writer.h"
#include "tests/worker/data/formats/support/sample_list.h"
#include "worker/data/formats/parse/lmdb_pages.h"

namespace muster::worker {
namespace {

using ::muster::testing::DatumBytes;
using ::muster::testing::ForEachBitFlip;
using ::muster::testing::LittleEndianBytes;
using ::muster::testing::LmdbWriter;
using ::muster::testing::MemoryFileSystem;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalidPage = absl::StatusCode::kInvalidArgument;

std::string Jpeg(const std::string& rest) { return "\xff\xd8\xff" + rest; }

std::string Contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

class LmdbTest : public ::testing::Test {
 protected:
  std::string path() const { return dir_ / "data.mdb"; }
  absl::StatusOr<LmdbIndex> Index() {
    list_ = SampleList();
    return IndexLmdb(PosixFileSystem(), path(), options_, list_);
  }
  std::vector<WholeSample> Samples() {
    index_ = Index();
    EXPECT_OK(index_);
    const auto whole = list_.Read(PosixFileSystem());
    EXPECT_OK(whole);
    return whole.ok() ? *whole : std::vector<WholeSample>();
  }
  // Everything, by our own walk.
  LmdbWriter::Items Walked(FileSystem& fs, const std::string& path, absl::Status* status) {
    LmdbWriter::Items items;
    auto pages = LmdbPages::Open(fs, path);
    *status = pages.status();
    if (!pages.ok()) return items;
    *status = pages->Walk([&](const LmdbPages::Entry& entry) -> absl::Status {
      std::string value(entry.size, '\0');
      MUSTER_RETURN_IF_ERROR(ReadSample(fs, path, entry.offset, entry.size, value.data()));
      items.emplace_back(std::string(entry.key), value);
      return absl::OkStatus();
    });
    return items;
  }

  TempDir dir_;
  LmdbOptions options_;
  SampleList list_;
  absl::StatusOr<LmdbIndex> index_;
};

TEST_F(LmdbTest, GivesPicturesOfDatums) {
  LmdbWriter(dir_.path())
      .Put({{"00000000_n01/a.JPEG", DatumBytes(5, "small")},
            {"00000001_n02/b.JPEG", DatumBytes(0, std::string(50'000, 'x'))},
            {"00000002", DatumBytes(-1, "none")},
            {"__len__", "3"}});
  EXPECT_THAT(Samples(), ElementsAre(WholeSample{"00000000_n01/a", "small", 5},
                                     WholeSample{"00000001_n02/b", std::string(50'000, 'x'), 0},
                                     WholeSample{"00000002", "none", kNoLabel}));
  EXPECT_TRUE(index_->classes.empty());
  EXPECT_THAT(index_->report.reasons, ElementsAre(HasSubstr("__len__")));
}

TEST_F(LmdbTest, GivesPicturesWithTheClassOfTheirKey) {
  // "a-b/" comes before "a/" among keys, and behind it among classes.
  LmdbWriter(dir_.path())
      .Put({{"a-b/1.jpg", Jpeg("1")},
            {"a/2.jpg", Jpeg(std::string(9000, '2'))},
            {"c/3", Jpeg("3")}});
  EXPECT_THAT(Samples(), ElementsAre(WholeSample{"a-b/1", Jpeg("1"), 1},
                                     WholeSample{"a/2", Jpeg(std::string(9000, '2')), 0},
                                     WholeSample{"c/3", Jpeg("3"), 2}));
  EXPECT_THAT(index_->classes, ElementsAre("a", "a-b", "c"));
  options_.classes = {"a", "a-b", "b", "c"};
  EXPECT_EQ(Samples()[2].label, 3);
  options_.classes = {"a", "a-b"};
  EXPECT_THAT(Index(), StatusIs(kInvalidPage, HasSubstr("class c")));
  options_.classes = {"b", "a"};
  EXPECT_THAT(Index(), StatusIs(kInvalidPage, HasSubstr("not in order")));
}

TEST_F(LmdbTest, RefusesOtherValues) {
  const auto refused = [&](const std::string& value, const char* what) {
    TempDir own;
    LmdbWriter(own.path()).Put({{"k", value}});
    SampleList list;
    EXPECT_THAT(IndexLmdb(PosixFileSystem(), own / "data.mdb", {}, list),
                StatusIs(kInvalidPage, HasSubstr(what)));
  };
  refused(DatumBytes(1, "pixels", false), "raw pixels");
  refused(DatumBytes(-2, "x"), "label -2");
  refused("some text", "data.mdb at byte ");
  refused("", "neither a picture nor a Datum");
}

TEST_F(LmdbTest, RefusesDatabasesOfOtherKinds) {
  {
    TempDir own;
    LmdbWriter(own.path()).Put({{"k", "v"}}, "named");
    absl::Status status;
    Walked(PosixFileSystem(), own / "data.mdb", &status);
    EXPECT_THAT(status, StatusIs(kInvalidPage, HasSubstr("key named is a database of its own")));
  }
  LmdbWriter(dir_.path()).Put({{"k", "v"}, {"k", "w"}}, nullptr, MDB_DUPSORT);
  EXPECT_THAT(Index(), StatusIs(kInvalidPage, HasSubstr("DUPSORT")));
}

TEST_F(LmdbTest, FindsNothingInAnEmptyFile) {
  { LmdbWriter writer(dir_.path()); }
  EXPECT_OK(Index());
  EXPECT_TRUE(list_.samples().empty());
}

TEST_F(LmdbTest, WalksWhatLiblmdbWalks) {
  std::mt19937 random(5);
  LmdbWriter writer(dir_.path());
  // Deep trees: keys as long as may be; values on both sides of what fits into a page. Deleted keys
  // and several transactions leave pages free and both meta pages in use.
  for (int round = 0; round < 4; ++round) {
    LmdbWriter::Items items;
    for (int i = 0; i < 3000; ++i) {
      std::string key = absl::StrFormat("%06d", random() % 100'000);
      key.resize(6 + random() % 400, 'k');
      items.emplace_back(key, std::string(random() % (i % 50 == 0 ? 20'000 : 60), 'v'));
    }
    writer.Put(items);
    const LmdbWriter::Items all = writer.All();
    for (size_t i = 0; i < all.size(); i += 7) writer.Delete(all[i].first);
    absl::Status status;
    const LmdbWriter::Items walked = Walked(PosixFileSystem(), path(), &status);
    ASSERT_OK(status);
    ASSERT_EQ(walked, writer.All());
  }
}

// Files of other machines, of which there is none to write one.
TEST_F(LmdbTest, TellsFilesOfOtherMachinesAndVersions) {
  LmdbWriter(dir_.path()).Put({{"k", DatumBytes(1, "x")}});
  const std::string good = Contents(path());
  MemoryFileSystem files;
  const auto open = [&](const std::string& bytes) {
    files.files()["/d.mdb"] = bytes;
    return LmdbPages::Open(files, "/d.mdb").status();
  };
  ASSERT_OK(open(good));
  std::string other = good;
  other.replace(16, 4, "\xbe\xef\xc0\xde");
  EXPECT_THAT(open(other), StatusIs(kInvalidPage, HasSubstr("big-endian")));
  other = good;
  other.erase(12, 4);
  EXPECT_THAT(open(other), StatusIs(kInvalidPage, HasSubstr("32-bit")));
  other = good;
  other[20] = 2;
  EXPECT_THAT(open(other), StatusIs(kInvalidPage, HasSubstr("format 2")));
  other = good;
  other[41] = 0x11;
  EXPECT_THAT(open(other), StatusIs(kInvalidPage, HasSubstr("pages of")));
  EXPECT_THAT(open(std::string(8192, 'x')), StatusIs(kInvalidPage, HasSubstr("no LMDB file")));
  EXPECT_THAT(open(""), StatusIs(kInvalidPage, HasSubstr("cut off")));
}

TEST_F(LmdbTest, IsRightOrRefusesWhenCutOff) {
  LmdbWriter writer(dir_.path());
  LmdbWriter::Items items;
  for (int i = 0; i < 60; ++i) {
    items.emplace_back(absl::StrFormat("%03d", i), DatumBytes(i, std::string(300 + 100 * i, 'x')));
  }
  writer.Put(items);
  const std::string good = Contents(path());
  MemoryFileSystem files;
  int refused = 0;
  for (size_t size = 0; size < good.size(); size += size < 10'000 ? 1 : 509) {
    files.files()["/d.mdb"] = good.substr(0, size);
    absl::Status status;
    const LmdbWriter::Items walked = Walked(files, "/d.mdb", &status);
    refused += status.ok() ? 0 : 1;
    if (status.ok()) {
      EXPECT_EQ(walked, items) << size;
    } else {
      EXPECT_EQ(status.code(), kInvalidPage) << status;
    }
  }
  EXPECT_GT(refused, 10'000);
}

TEST_F(LmdbTest, StaysInTheFileAfterAnyBitFlip) {
  LmdbWriter writer(dir_.path());
  LmdbWriter::Items items;
  for (int i = 0; i < 40; ++i) {
    items.emplace_back(absl::StrFormat("%03d", i), DatumBytes(i, std::string(140, 'x')));
  }
  items.emplace_back("big", DatumBytes(1, std::string(5000, 'x')));
  writer.Put(items);
  const std::string good = Contents(path());
  MemoryFileSystem files;
  std::string& bytes = files.files()["/d.mdb"];
  bytes = good;
  for (size_t bit = 0; bit < 8 * good.size(); bit += 3) {
    const char mask = static_cast<char>(1 << (bit % 8));
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
    SampleList list;
    const auto index = IndexLmdb(files, "/d.mdb", {}, list);
    EXPECT_TRUE(index.ok() || index.status().code() == kInvalidPage) << bit << index.status();
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
  }
}

TEST_F(LmdbTest, EndsATreeWhosePagesPointToEachOther) {
  LmdbWriter writer(dir_.path());
  LmdbWriter::Items items;
  for (int i = 0; i < 2000; ++i)
    items.emplace_back(absl::StrFormat("%06d", i), std::string(60, 'x'));
  writer.Put(items);
  std::string bytes = Contents(path());
  // All nodes of every branch point to its first page below.
  size_t branches = 0;
  for (size_t page = 8192; page + 4096 <= bytes.size(); page += 4096) {
    if (bytes[page + 10] != 1) continue;
    ++branches;
    const auto u16 = [&](size_t at) {
      return static_cast<size_t>(static_cast<uint8_t>(bytes[at]) |
                                 static_cast<uint8_t>(bytes[at + 1]) << 8);
    };
    const size_t count = (u16(page + 12) - 16) / 2;
    const std::string first = bytes.substr(page + u16(page + 16), 6);
    for (size_t i = 0; i < count; ++i) bytes.replace(page + u16(page + 16 + 2 * i), 6, first);
  }
  ASSERT_GT(branches, 0u);
  MemoryFileSystem files;
  files.files()["/d.mdb"] = bytes;
  absl::Status status;
  Walked(files, "/d.mdb", &status);
  // As many pages are walked as there should be, with the entries of one of them.
  EXPECT_THAT(status, StatusIs(kInvalidPage, HasSubstr("damaged")));
}

}  // namespace
}  // namespace muster::worker
