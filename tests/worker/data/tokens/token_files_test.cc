#include "worker/data/text/token_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/fuzz/memory_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/support/unlistable_files.h"
#include "tests/worker/data/tokens/token_file_writers.h"
#include "worker/data/text/token_splits.h"

namespace muster::worker {
namespace {

using ::absl::StatusCode;
using ::muster::testing::BytesOfNumbers;
using ::muster::testing::LlmcShard;
using ::muster::testing::MegatronIndex;
using ::muster::testing::MemoryFileSystem;
using ::muster::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using ::muster::testing::TempDir;
using ::muster::testing::UnlistableFiles;

class TokenFilesTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& bytes) {
    fs_.files()["/data/" + name] = bytes;
  }
  absl::StatusOr<std::vector<std::string>> Find(const std::string& split) {
    return FindTokenFiles(fs_, "/data", split);
  }
  absl::StatusOr<TokenSpan> Tokens(const std::string& name) {
    return FindTokens(fs_, "/data/" + name);
  }

  MemoryFileSystem fs_;
};

TEST_F(TokenFilesTest, WhatNeedNotBeThereMayBeDenied) {
  const TempDir dir;
  UnlistableFiles files;
  const std::vector<uint16_t> tokens(8, 1);
  ASSERT_OK(WriteFileAtomically(PosixFileSystem(), dir / "train.bin", BytesOfNumbers(tokens)));
  EXPECT_THAT(FindTokenSplits(files, dir.path()),
              StatusIs(StatusCode::kPermissionDenied, HasSubstr("403")));
  ASSERT_OK(WriteFileAtomically(PosixFileSystem(), dir / "val.bin", BytesOfNumbers(tokens)));
  ASSERT_OK_AND_ASSIGN(const TokenSplitFiles splits, FindTokenSplits(files, dir.path()));
  EXPECT_THAT(splits[0], ElementsAre(dir / "train.bin"));
  EXPECT_THAT(splits[2], ElementsAre(dir / "val.bin"));
  ASSERT_OK_AND_ASSIGN(const TokenSpan span, FindTokens(files, dir / "train.bin"));
  EXPECT_EQ(span.size_bytes, 16u);
}

TEST_F(TokenFilesTest, ShardsAreFoundByTheirNamesAndInTheirOrder) {
  for (const char* name : {"fineweb_train_000002.bin", "fineweb_train_000001.bin", "notes.txt",
                           "fineweb_val_000000.bin", ".hidden_train_1.bin", "fineweb_train_3.idx",
                           "small_test.bin", "strain.bin"}) {
    Write(name, "");
  }
  ASSERT_OK_AND_ASSIGN(const auto train, Find("train"));
  EXPECT_THAT(train,
              ElementsAre("/data/fineweb_train_000001.bin", "/data/fineweb_train_000002.bin"));
  ASSERT_OK_AND_ASSIGN(const auto val, Find("val"));
  EXPECT_THAT(val, ElementsAre("/data/fineweb_val_000000.bin"));
  ASSERT_OK_AND_ASSIGN(const auto test, Find("test"));
  EXPECT_THAT(test, ElementsAre("/data/small_test.bin"));
}

TEST_F(TokenFilesTest, AFileOfTheSplitsNameIsTakenBeforeShards) {
  Write("some_train_1.bin", "");
  Write("train.npy", "");
  ASSERT_OK_AND_ASSIGN(const auto train, Find("train"));
  EXPECT_THAT(train, ElementsAre("/data/train.npy"));
  Write("train.bin", "");
  EXPECT_THAT(Find("train"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("keep one of them")));
  ASSERT_OK_AND_ASSIGN(const auto val, Find("val"));
  EXPECT_THAT(val, IsEmpty());
  ASSERT_OK_AND_ASSIGN(const auto elsewhere, FindTokenFiles(fs_, "/nowhere", "train"));
  EXPECT_THAT(elsewhere, IsEmpty());
}

TEST_F(TokenFilesTest, AShardIsToldByItsHeader) {
  Write("a.bin", LlmcShard(std::vector<uint16_t>{1, 2, 3}));
  ASSERT_OK_AND_ASSIGN(const TokenSpan gpt2, Tokens("a.bin"));
  EXPECT_EQ(gpt2.type, TokenType::kUint16);
  EXPECT_EQ(gpt2.offset_bytes, 1024u);
  EXPECT_EQ(gpt2.size_bytes, 6u);
  Write("b.bin", LlmcShard(std::vector<uint32_t>{1, 2, 3}, 20240801, 7));
  ASSERT_OK_AND_ASSIGN(const TokenSpan llama3, Tokens("b.bin"));
  EXPECT_EQ(llama3.type, TokenType::kUint32);
  EXPECT_EQ(llama3.size_bytes, 12u);
  // Without a header, as nanoGPT has them.
  Write("c.bin", BytesOfNumbers(std::vector<uint16_t>(2000, 7)));
  ASSERT_OK_AND_ASSIGN(const TokenSpan raw, Tokens("c.bin"));
  EXPECT_EQ(raw.offset_bytes, 0u);
  EXPECT_EQ(raw.size_bytes, 4000u);
}

TEST_F(TokenFilesTest, ShardsThatCannotBeAreRefusedByName) {
  const std::string shard = LlmcShard(std::vector<uint16_t>{1, 2, 3});
  Write("a.bin", shard.substr(0, shard.size() - 2));
  EXPECT_THAT(Tokens("a.bin"),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("/data/a.bin should have 3 tokens, but holds 2")));
  Write("a.bin", shard + "xx");
  EXPECT_THAT(Tokens("a.bin"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("but holds 4")));
  Write("a.bin", LlmcShard(std::vector<uint16_t>{1}, 20240520, 2));
  EXPECT_THAT(Tokens("a.bin"), StatusIs(StatusCode::kInvalidArgument,
                                        HasSubstr("/data/a.bin is a shard of version 2, want 1")));
}

TEST_F(TokenFilesTest, MegatronsTokensAreFoundByTheIndexBesideThem) {
  Write("train.bin", BytesOfNumbers(std::vector<int32_t>{1, 2, 3, 4, 5, 6}));
  Write("train.idx", MegatronIndex({2, 0, 4}, 4, 4));
  ASSERT_OK_AND_ASSIGN(const TokenSpan wide, Tokens("train.bin"));
  EXPECT_EQ(wide.type, TokenType::kInt32);
  EXPECT_EQ(wide.offset_bytes, 0u);
  EXPECT_EQ(wide.size_bytes, 24u);
  Write("train.idx", MegatronIndex({2, 9, 1}, 8, 2));
  ASSERT_OK_AND_ASSIGN(const TokenSpan narrow, Tokens("train.bin"));
  EXPECT_EQ(narrow.type, TokenType::kUint16);
  EXPECT_EQ(narrow.size_bytes, 24u);
  // Another program's index says nothing.
  Write("train.idx", "some index");
  ASSERT_OK_AND_ASSIGN(const TokenSpan raw, Tokens("train.bin"));
  EXPECT_EQ(raw.type, TokenType::kUint16);
}

TEST_F(TokenFilesTest, AnIndexOfManySequencesIsReadInPieces) {
  const std::vector<int32_t> lengths(200'000, 1);
  Write("train.bin", std::string(200'000, '\1'));
  Write("train.idx", MegatronIndex(lengths, 1, 1));
  ASSERT_OK_AND_ASSIGN(const TokenSpan span, Tokens("train.bin"));
  EXPECT_EQ(span.size_bytes, 200'000u);
}

TEST_F(TokenFilesTest, IndicesThatCannotBeAreRefusedByName) {
  const std::string good = MegatronIndex({2, 4}, 8, 2);
  const auto with = [&](size_t at, char byte) {
    std::string index = good;
    index[at] = byte;
    return index;
  };
  const struct {
    std::string index;
    const char* message;
  } cases[] = {
      {good.substr(0, 20), "/data/train.idx is cut off"},
      {good.substr(0, good.size() - 1), "2 sequences and 2 documents: it is cut off"},
      {with(9, 2), "has version 2, want 1"},
      {with(17, 6), "numbers of type 6"},
      {with(24, 1), "it is cut off"},             // 2^48 sequences
      {with(33, '\xff'), "it is cut off"},        // documents
      {with(37, '\x80'), "has sequence 0"},       // a negative length
      {with(34, 5), "has sequence 1 at byte 4"},  // a sequence that overlaps
      {with(38, 9), "more tokens than the .bin beside it, of 12 bytes"},
  };
  Write("train.bin", BytesOfNumbers(std::vector<uint16_t>(6, 1)));
  Write("train.idx", good);
  EXPECT_OK(Tokens("train.bin"));
  for (const auto& c : cases) {
    Write("train.idx", c.index);
    EXPECT_THAT(Tokens("train.bin"),
                StatusIs(StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("/data/train.idx"), HasSubstr(c.message))));
  }
}

}  // namespace
}  // namespace muster::worker
