#include "worker/data/formats/shard_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/fuzz/memory_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/data/formats/support/format_bytes.h"
#include "tests/worker/data/formats/support/sample_list.h"

namespace muster::worker {
namespace {

using ::absl::StatusCode;
using ::muster::testing::MemoryFileSystem;
using ::muster::testing::PaxRecord;
using ::muster::testing::StatusIs;
using ::muster::testing::TarEnd;
using ::muster::testing::TarFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ShardIndexTest : public ::testing::Test {
 protected:
  void PutShard(const std::string& members) { files_.files()["/d/t.tar"] = members + TarEnd(); }
  std::string Make() {
    const absl::StatusOr<std::string> text = MakeShardIndex(files_, "/d/t.tar", {});
    EXPECT_OK(text);
    return text.ok() ? *text : "";
  }
  absl::StatusOr<std::optional<IndexReport>> Read(const std::string& text) {
    list_ = SampleList();
    reads_ = 0;
    IndexedShard shard{"/d/t.tar", *files_.FileSize("/d/t.tar"), nullptr};
    shard.read = [&](uint64_t offset, char* buffer, uint64_t bytes) {
      ++reads_;
      return files_.ReadAt("/d/t.tar", offset, buffer, bytes);
    };
    return IndexByShardIndex(shard, "/d/t.idx", text, {}, list_);
  }
  void ExpectRefused(const std::string& text, const char* what) {
    const auto read = Read(text);
    EXPECT_THAT(read, StatusIs(StatusCode::kInvalidArgument, HasSubstr(what))) << text;
    EXPECT_THAT(read.status().message(), HasSubstr("/d/t.idx line "));
    EXPECT_THAT(read.status().message(), HasSubstr("muster data index --beside"));
    EXPECT_TRUE(list_.samples().empty());
  }

  MemoryFileSystem files_;
  SampleList list_;
  int reads_ = 0;
};

// A name of more than 100 bytes stands in a PAX record before its header.
std::string LongName() { return std::string(120, 'n'); }
std::string Members() {
  return TarFile("a/1.jpg", "first") + TarFile("a/1.cls", "7") +
         TarFile("a/2.json", R"({"label": 3})") + TarFile("a/2.txt", "a caption") +
         TarFile("a/2.PNG", std::string(700, 's')) + TarFile("a/no-picture.cls", "1") +
         TarFile("pax", PaxRecord("path", LongName() + ".jpg"), 'x') +
         TarFile(LongName().substr(0, 100), "third") + TarFile("z.jpg", "last");
}

TEST_F(ShardIndexTest, IsWhatDaliReadsAndOurLabelsBehindIt) {
  PutShard(Members());
  const std::string n = LongName();
  EXPECT_EQ(Make(), absl::StrCat("v1.2 5\n"
                                 "jpg 512 5 a/1.jpg cls 1536 1 a/1.cls\n"
                                 "json 2560 12 a/2.json txt 3584 9 a/2.txt PNG 4608 700 a/2.PNG\n"
                                 "cls 6144 1 a/no-picture.cls\n"
                                 "jpg 8192 5 ",
                                 n,
                                 ".jpg\n"
                                 "jpg 9216 4 z.jpg\n"
                                 "muster 1 10752\n7\n3\n-1\n-1\n-1\n"));
}

TEST_F(ShardIndexTest, GivesTheSamplesThatTheShardGives) {
  PutShard(Members());
  SampleList walked;
  const absl::StatusOr<IndexReport> walk = IndexWebDataset(files_, "/d/t.tar", {}, walked);
  ASSERT_OK(walk);
  const auto read = Read(Make());
  ASSERT_OK(read);
  ASSERT_TRUE(read->has_value());
  EXPECT_EQ(list_.samples(), walked.samples());
  EXPECT_EQ((*read)->samples, walk->samples);
  EXPECT_EQ((*read)->reasons, walk->reasons);
  EXPECT_EQ(reads_, 3);  // headers, to see whether it is this shard's
}

TEST_F(ShardIndexTest, OneThatSaysNothingOfLabelsIsUsedWhereThereAreNone) {
  PutShard(TarFile("1.jpg", "first") + TarFile("1.txt", "a") + TarFile("2.jpg", "second"));
  // As wds2idx writes it.
  const std::string dalis = "v1.2 2\njpg 512 5 1.jpg txt 1536 1 1.txt\njpg 2560 6 2.jpg\n";
  const auto read = Read(dalis);
  ASSERT_OK(read);
  ASSERT_TRUE(read->has_value());
  EXPECT_THAT(list_.samples(), ElementsAre(ListedSample{"1", 0, 512, 5, kNoLabel},
                                           ListedSample{"2", 0, 2560, 6, kNoLabel}));
  PutShard(TarFile("1.jpg", "first") + TarFile("1.cls", "3"));
  for (const char* text : {"v1.2 1\njpg 512 5 1.jpg cls 1536 1 1.cls\n", "v1.1 1\njpg 512 5\n"}) {
    const auto other = Read(text);
    ASSERT_OK(other);
    EXPECT_FALSE(other->has_value()) << text;
    EXPECT_TRUE(list_.samples().empty());
  }
}

TEST_F(ShardIndexTest, OneThatIsNotOfTheShardIsRefused) {
  PutShard(Members());
  const std::string whole = Make();
  const auto changed = [&](const char* from, const char* to) {
    EXPECT_THAT(whole, HasSubstr(from));
    return absl::StrReplaceAll(whole, {{from, to}});
  };
  ExpectRefused(changed("muster 1 10752", "muster 1 20480"), "has 20480 bytes, and it has 10752");
  ExpectRefused(changed("jpg 512 5 a/1.jpg", "jpg 1024 5 a/1.jpg"), "where none is");
  ExpectRefused(changed("jpg 512 5 a/1.jpg", "jpg 512 6 a/1.jpg"), "where a/1.jpg with 5 bytes is");
  ExpectRefused(changed("512 5 a/1.jpg cls 1536 1 a/1.cls", "512 5 b/1.jpg cls 1536 1 b/1.cls"),
                "where a/1.jpg");
  ExpectRefused(changed("jpg 9216 4 z.jpg", "jpg 10752 4 z.jpg"), "the shard has 10752");
  ExpectRefused(changed("jpg 512 5", "jpg 0 5"), "at 0 with");
  ExpectRefused(changed("jpg 512 5", "jpg 513 5"), "at 513 with");
  ExpectRefused(changed("jpg 512 5", "jpg 512 18446744073709551615"), "a/1.jpg");
  ExpectRefused(changed("txt 3584 9 a/2.txt", "jpg 3584 9 a/2.jpg"), "a second input");
  ExpectRefused(changed("txt 3584 9 a/2.txt", "txt 3584 9 a/3.txt"), "for the sample a/2");
  ExpectRefused(changed("txt 3584 9 a/2.txt", "txt 3584 9"), "wants an extension, an offset");
  ExpectRefused(changed("\n7\n", "\nseven\n"), "label for each sample");
  ExpectRefused(changed("\n7\n", "\n-2\n"), "label for each sample");
  ExpectRefused(changed("v1.2 5", "v1.2 50000"), "no number of samples");
  ExpectRefused(changed("v1.2 5", "v1.2 50"), "has fewer samples than it says");
  ExpectRefused(changed("v1.2 5", "MXIndex 5"), "begins with a version");
  ExpectRefused("", "begins with a version");
  // Cut off anywhere: refused, or as far as it goes an index without labels.
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const auto read = Read(whole.substr(0, bytes));
    EXPECT_TRUE(!read.ok() || read->has_value() == (bytes + 1 == whole.size())) << bytes;
  }
}

TEST_F(ShardIndexTest, ANameWithASpaceCannotBeHeld) {
  PutShard(TarFile("a b.jpg", "first"));
  EXPECT_THAT(MakeShardIndex(files_, "/d/t.tar", {}),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("a b.jpg")));
}

TEST_F(ShardIndexTest, HasTheShardsNameWithoutTar) {
  EXPECT_EQ(ShardIndexPath("https://host/train-000.v2.tar"), "https://host/train-000.v2.idx");
  EXPECT_EQ(ShardIndexPath("https://host/train-000.tar?signature=x"), std::nullopt);
}

}  // namespace
}  // namespace muster::worker
