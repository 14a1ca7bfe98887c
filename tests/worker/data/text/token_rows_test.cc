#include "worker/data/text/token_rows.h"

#include <ATen/ops/equal.h>

#include <cstring>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/object_store/cache/any_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/data/loader.h"

namespace muster::worker {
namespace {

using ::absl::StatusCode;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// As numpy.save writes it.
std::string Npy(const std::string& type, const std::string& shape, const std::string& data) {
  std::string header =
      absl::StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': ", shape, ", }");
  header.resize((header.size() + 10 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  return absl::StrCat(absl::string_view("\x93NUMPY\x01\x00", 8),
                      std::string(1, static_cast<char>(header.size() % 256)),
                      std::string(1, static_cast<char>(header.size() / 256)), header, data);
}

template <typename T>
std::vector<T> Counting(int64_t count, int64_t modulus = 1000) {
  std::vector<T> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<T>(i % modulus));
  return values;
}

class TokenRowsTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& bytes) {
    ASSERT_OK(PosixFileSystem().MakeDirectories((dir_ / name).substr(0, (dir_ / name).rfind('/'))));
    ASSERT_OK(WriteFileAtomically(PosixFileSystem(), dir_ / name, bytes));
  }
  absl::StatusOr<std::unique_ptr<Dataset>> Tokens(int64_t context = 4, int64_t vocabulary = 1000) {
    return ReadTokens(std::make_shared<AnyFileSystem>(PosixFileSystem()),
                      {dir_.path(), context, vocabulary});
  }
  absl::StatusOr<std::unique_ptr<Dataset>> Text(const std::string& name, int64_t context) {
    return ReadText(PosixFileSystem(), {dir_ / name, context});
  }

  TempDir dir_;
};

// What was said of bytes that will be read.
class Hints final : public Prefetch {
 public:
  void WillRead(const std::string& path, uint64_t offset, uint64_t bytes) override {
    all_.push_back(absl::StrCat(path.substr(path.rfind('/') + 1), " ", offset, "+", bytes));
  }
  const std::vector<std::string>& all() const { return all_; }

 private:
  std::vector<std::string> all_;
};

// All rows of a split as one list of inputs; checks that targets are one token on.
std::vector<int64_t> AllInputs(const Dataset& dataset, Split split) {
  const Dataset::Part part = dataset.Range(split, 0, dataset.size(split));
  const int64_t context = dataset.shape()[0];
  EXPECT_TRUE(
      at::equal(part.inputs.narrow(1, 1, context - 1), part.targets.narrow(1, 0, context - 1)));
  const int64_t* values = part.inputs.const_data_ptr<int64_t>();
  return std::vector<int64_t>(values, values + part.inputs.numel());
}

TEST_F(TokenRowsTest, TheBytesOfRowsInShardsAreFetchedAhead) {
  Write("a_train_0.bin", Bytes(Counting<uint16_t>(10)));
  Write("a_train_1.bin", Bytes(Counting<uint16_t>(10)));
  Write("a_val_0.bin", Bytes(Counting<uint16_t>(9)));
  const auto hints = std::make_shared<Hints>();
  ASSERT_OK_AND_ASSIGN(const auto tokens,
                       ReadTokens(std::make_shared<AnyFileSystem>(PosixFileSystem()),
                                  {dir_.path(), 4, 1000}, hints));
  tokens->WillRead(Split::kTrain, {0, 2});
  tokens->WillRead(Split::kValidation, {1});
  EXPECT_EQ(hints->all(), (std::vector<std::string>{"a_train_0.bin 0+10", "a_train_0.bin 16+4",
                                                    "a_train_1.bin 0+6", "a_val_0.bin 8+10"}));
}

TEST_F(TokenRowsTest, RowsFollowEachOtherAndEveryTokenButTheFirstIsATargetOnce) {
  Write("train.bin", Bytes(Counting<uint16_t>(22)));  // 5 rows of 4, a target, and one left over
  Write("val.bin", Bytes(Counting<uint16_t>(5)));
  ASSERT_OK_AND_ASSIGN(const auto tokens, Tokens());
  EXPECT_EQ(tokens->shape(), (std::vector<int64_t>{4}));
  EXPECT_EQ(tokens->classes(), 1000);
  EXPECT_EQ(tokens->size(Split::kTrain), 5);
  EXPECT_EQ(tokens->size(Split::kValidation), 1);
  EXPECT_EQ(AllInputs(*tokens, Split::kTrain), Counting<int64_t>(20));
  const Dataset::Part part = tokens->Gather(Split::kTrain, {3, 0});
  EXPECT_EQ(part.inputs[0][0].item<int64_t>(), 12);
  EXPECT_EQ(part.targets[0][3].item<int64_t>(), 16);
  EXPECT_EQ(part.inputs[1][0].item<int64_t>(), 0);
}

TEST_F(TokenRowsTest, EveryTypeOfNumberGivesTheSameTokens) {
  Write("val.bin", Bytes(Counting<uint16_t>(9)));
  Write("train.bin", Bytes(Counting<uint16_t>(200, 100)));
  ASSERT_OK_AND_ASSIGN(const auto raw, Tokens(4, 100'000));
  ASSERT_OK(PosixFileSystem().RemoveFile(dir_ / "train.bin"));
  const struct {
    const char* type;
    std::string data;
  } kCases[] = {{"|u1", Bytes(Counting<uint8_t>(200, 100))},
                {"<u2", Bytes(Counting<uint16_t>(200, 100))},
                {"<u4", Bytes(Counting<uint32_t>(200, 100))},
                {"<i4", Bytes(Counting<int32_t>(200, 100))},
                {"<i8", Bytes(Counting<int64_t>(200, 100))}};
  for (const auto& c : kCases) {
    Write("train.npy", Npy(c.type, "(200,)", c.data));
    for (const int64_t vocabulary : {100, 10'000, 100'000}) {
      ASSERT_OK_AND_ASSIGN(const auto tokens, Tokens(4, vocabulary));
      EXPECT_EQ(AllInputs(*tokens, Split::kTrain), AllInputs(*raw, Split::kTrain)) << c.type;
    }
  }
}

TEST_F(TokenRowsTest, TheTestSetIsTheValidationSetUnlessItHasAFile) {
  Write("train.bin", Bytes(Counting<uint16_t>(50)));
  Write("val.bin", Bytes(Counting<uint16_t>(9)));
  ASSERT_OK_AND_ASSIGN(const auto two, Tokens());
  EXPECT_EQ(AllInputs(*two, Split::kTest), AllInputs(*two, Split::kValidation));
  Write("test.bin", Bytes(Counting<uint16_t>(13)));
  ASSERT_OK_AND_ASSIGN(const auto three, Tokens());
  EXPECT_EQ(three->size(Split::kTest), 3);
  EXPECT_NE(three->fingerprint(), two->fingerprint());
}

TEST_F(TokenRowsTest, TheFingerprintFollowsTheTokensAndHowTheyAreCut) {
  Write("train.bin", Bytes(Counting<uint16_t>(50)));
  Write("val.bin", Bytes(Counting<uint16_t>(9)));
  std::set<std::string> seen;
  ASSERT_OK_AND_ASSIGN(const auto a, Tokens());
  ASSERT_OK_AND_ASSIGN(const auto again, Tokens());
  EXPECT_EQ(a->fingerprint(), again->fingerprint());
  ASSERT_OK_AND_ASSIGN(const auto b, Tokens(5));
  Write("train.bin", Bytes(Counting<uint16_t>(50, 49)));
  ASSERT_OK_AND_ASSIGN(const auto c, Tokens());
  for (const auto* one : {&a, &b, &c}) seen.insert((*one)->fingerprint());
  EXPECT_EQ(seen.size(), 3u);
}

// A header as llm.c writes it, before these tokens.
std::string Shard(const std::vector<uint16_t>& tokens) {
  std::vector<int32_t> header(256, 0);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = static_cast<int32_t>(tokens.size());
  return Bytes(header) + Bytes(tokens);
}

TEST_F(TokenRowsTest, ShardsAreReadAsOneFile) {
  Write("train.bin", Bytes(Counting<uint16_t>(22)));
  Write("val.bin", Bytes(Counting<uint16_t>(6)));
  ASSERT_OK_AND_ASSIGN(const auto whole, Tokens());
  ASSERT_OK(PosixFileSystem().RemoveFile(dir_ / "train.bin"));
  const std::vector<uint16_t> all = Counting<uint16_t>(22);
  Write("some_train_000002.bin", Shard({all.begin() + 7, all.end()}));
  Write("some_train_000001.bin", Shard({all.begin(), all.begin() + 7}));
  ASSERT_OK_AND_ASSIGN(const auto shards, Tokens());
  EXPECT_EQ(AllInputs(*shards, Split::kTrain), AllInputs(*whole, Split::kTrain));
  EXPECT_NE(shards->fingerprint(), whole->fingerprint());
  EXPECT_EQ(shards->bytes(), 0);  // they stay in their files
  // A batch, as the loader has it.
  const Sampler sampler(static_cast<uint64_t>(whole->size(Split::kTrain)), 3, 1);
  const Batch from_files = *Loader(*shards, sampler).TrainBatch(1, 0, 1);
  const Batch from_memory = *Loader(*whole, sampler).TrainBatch(1, 0, 1);
  EXPECT_TRUE(at::equal(from_files.inputs, from_memory.inputs));
  EXPECT_TRUE(at::equal(from_files.targets, from_memory.targets));
  // One file with a header is the tokens in it.
  Write("train.bin", Shard(all));
  ASSERT_OK_AND_ASSIGN(const auto headed, Tokens());
  EXPECT_EQ(headed->fingerprint(), whole->fingerprint());
}

TEST_F(TokenRowsTest, BadTokenFilesAreRefusedByName) {
  EXPECT_THAT(Tokens(), StatusIs(StatusCode::kNotFound, HasSubstr("neither train.bin nor")));
  Write("train.bin", Bytes(Counting<uint16_t>(50)));
  EXPECT_THAT(Tokens(), StatusIs(StatusCode::kNotFound, HasSubstr("neither val.bin nor")));
  Write("val.bin", Bytes(std::vector<uint16_t>{1, 2, 3, 4, 1000}));
  EXPECT_THAT(Tokens(),
              StatusIs(StatusCode::kInvalidArgument, AllOf(HasSubstr("val.bin: token 4 is 1000"),
                                                           HasSubstr("the vocabulary has 1000"))));
  Write("val.bin", "abc");
  EXPECT_THAT(Tokens(), StatusIs(StatusCode::kInvalidArgument,
                                 HasSubstr("val.bin has 3 bytes, which is no whole number")));
  Write("val.bin", Bytes(Counting<uint16_t>(4)));
  EXPECT_THAT(Tokens(), StatusIs(StatusCode::kInvalidArgument,
                                 HasSubstr("val.bin has 4 tokens, want 5 at least")));
  Write("val.npy", Npy("<u2", "(9,)", Bytes(Counting<uint16_t>(9))));
  EXPECT_THAT(Tokens(), StatusIs(StatusCode::kInvalidArgument, HasSubstr("keep one of them")));
  ASSERT_OK(PosixFileSystem().RemoveFile(dir_ / "val.bin"));
  EXPECT_OK(Tokens());
  const struct {
    std::string file;
    const char* message;
  } kCases[] = {
      {Npy("<u2", "(9,)", Bytes(Counting<uint16_t>(8))), "should have 9 tokens, but holds 8"},
      {Npy("<f4", "(9,)", std::string(36, '\0')), "holds <f4, want uint8"},
      {Npy(">u2", "(9,)", std::string(18, '\0')), "is big-endian"},
      {Npy("<u2", "(3, 3)", std::string(18, '\0')), "has shape (3, 3)"},
      {Npy("<u2", "(-9,)", std::string(18, '\0')), "its shape is no list of sizes"},
      {Npy("<i8", "(5,)", Bytes(std::vector<int64_t>{0, 0, -1, 0, 0})), "token 2 is -1"},
      {"", "is no NumPy file"},
      {"something else altogether", "is no NumPy file"},
      {std::string("\x93NUMPY\x01\x00\xff\xff{'descr", 17), "cut off or too long"},
      {std::string("\x93NUMPY\x09\x00\x02\x00{}", 12), "version 9"},
  };
  for (const auto& c : kCases) {
    Write("val.npy", c.file);
    EXPECT_THAT(Tokens(), StatusIs(StatusCode::kInvalidArgument,
                                   AllOf(HasSubstr("val.npy"), HasSubstr(c.message))));
  }
}

TEST_F(TokenRowsTest, TextIsCutIntoBlocksOfWhichATwentiethEachIsHeldOut) {
  std::string text;
  for (int i = 0; i < 10'001; ++i) text += static_cast<char>(i % 251);
  Write("a.txt", text);
  ASSERT_OK_AND_ASSIGN(const auto rows, Text("a.txt", 10));  // 1,000 rows in 20 blocks of 50
  EXPECT_EQ(rows->classes(), 256);
  EXPECT_EQ(rows->size(Split::kTrain), 900);
  EXPECT_EQ(rows->size(Split::kValidation), 50);
  EXPECT_EQ(rows->size(Split::kTest), 50);
  EXPECT_EQ(AllInputs(*rows, Split::kTest).front(), 19 * 50 * 10 % 251);
  EXPECT_EQ(AllInputs(*rows, Split::kValidation).front(), 9 * 50 * 10 % 251);
  // Training has all the rest, in order.
  std::vector<int64_t> want;
  for (int64_t i = 0; i < 9'500; ++i) {
    if (i < 4'500 || i >= 5'000) want.push_back(i % 251);
  }
  EXPECT_EQ(AllInputs(*rows, Split::kTrain), want);
}

TEST_F(TokenRowsTest, AShortLastBlockLosesNoRow) {
  for (const int64_t count : {20, 21, 39, 40, 59, 1279, 1281, 2000}) {
    Write("a.txt", std::string(static_cast<size_t>(count * 3 + 1), 'x'));
    ASSERT_OK_AND_ASSIGN(const auto rows, Text("a.txt", 3));
    int64_t all = 0;
    for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
      EXPECT_GE(rows->size(split), 1) << count;
      EXPECT_EQ(AllInputs(*rows, split).size(), static_cast<size_t>(3 * rows->size(split)));
      all += rows->size(split);
    }
    EXPECT_EQ(all, count);
  }
}

TEST_F(TokenRowsTest, AFolderOfTextIsItsFilesInTheOrderOfTheirNames) {
  const std::string part(300, 'a');
  Write("corpus/b/first.md", part);
  Write("corpus/a.txt", std::string(300, 'b'));
  Write("corpus/c", std::string(300, 'c'));
  Write("corpus/.hidden/x", std::string(300, 'd'));
  Write("corpus/.y", std::string(300, 'e'));
  ASSERT_OK_AND_ASSIGN(const auto folder, Text("corpus", 10));
  Write("joined", std::string(300, 'b') + part + std::string(300, 'c'));
  ASSERT_OK_AND_ASSIGN(const auto file, Text("joined", 10));
  EXPECT_EQ(folder->fingerprint(), file->fingerprint());
  EXPECT_EQ(AllInputs(*folder, Split::kTrain), AllInputs(*file, Split::kTrain));
}

TEST_F(TokenRowsTest, TextThatIsMissingOrTooShortIsRefusedByName) {
  EXPECT_THAT(Text("nowhere", 4), StatusIs(StatusCode::kNotFound, HasSubstr("nowhere")));
  ASSERT_OK(PosixFileSystem().MakeDirectories(dir_ / "empty"));
  EXPECT_THAT(Text("empty", 4), StatusIs(StatusCode::kNotFound, HasSubstr("no text file")));
  Write("short", std::string(80, 'x'));
  EXPECT_THAT(Text("short", 4), StatusIs(StatusCode::kInvalidArgument,
                                         HasSubstr("has 80 bytes of text, want 81 at least")));
  Write("nothing", "");
  EXPECT_THAT(Text("nothing", 4), StatusIs(StatusCode::kInvalidArgument, HasSubstr("0 bytes")));
}

TEST_F(TokenRowsTest, TheLoaderServesRowsLikeAnySample) {
  Write("a.txt", std::string(2'001, 'x'));
  ASSERT_OK_AND_ASSIGN(const auto rows, Text("a.txt", 10));
  const Loader loader(*rows, Sampler(static_cast<uint64_t>(rows->size(Split::kTrain)), 8, 1));
  const Batch batch = *loader.TrainBatch(0, 1, 2);
  EXPECT_EQ(batch.inputs.sizes(), at::IntArrayRef({4, 10}));
  EXPECT_EQ(batch.targets.sizes(), at::IntArrayRef({4, 10}));
  EXPECT_EQ(batch.inputs.scalar_type(), at::kLong);
  EXPECT_EQ(loader.EvalBatch(Split::kTest, 4, 0, 0, 1)->count, 4);
}

}  // namespace
}  // namespace muster::worker
