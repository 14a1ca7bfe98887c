// Files that pyarrow wrote (write_files.py beside this), and what becomes of them when they are cut
// or changed.
#include "worker/data/parquet/parquet_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/rng.h"
#include "tests/fuzz/memory_file_system.h"
#include "tests/support/status_matchers.h"
#include "worker/data/parquet/image_rows.h"

namespace muster::worker {
namespace {

using ::absl::StatusCode;
using ::muster::testing::MemoryFileSystem;
using ::muster::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kRows = 24;
constexpr const char* kReadable[] = {"plain_v1",      "dictionary_v1_snappy", "plain_v2_zstd",
                                     "dictionary_v2", "delta_v1_gzip",        "delta_v2",
                                     "without_nulls"};

std::string BytesOf(const std::string& name) {
  std::ifstream in(absl::StrCat(PARQUET_FILES, "/", name, ".parquet"), std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

std::string ImageBytes(int64_t row) {
  std::string bytes;
  for (int64_t i = 0; i < 5 * row; ++i) bytes += static_cast<char>(row + i);
  return bytes;
}

// What write_files.py puts into the columns without the list, as text.
std::vector<std::string> WantedRow(int64_t i, bool nulls) {
  const auto unless = [&](int64_t number, const std::string& text) {
    return nulls && number % 7 == 3 ? "null" : text;
  };
  return {ImageBytes(i),
          unless(i + 1, absl::StrCat(i, ".png")),
          unless(i, absl::StrCat(i % 3)),
          unless(i + 2, absl::StrCat("row ", i / 2, " of some")),
          unless(i + 3, absl::StrCat(i * i - 50)),
          unless(i + 4, absl::StrCat(i % 5 == 0 ? 1 : 0)),
          unless(i + 5, absl::StrCat(static_cast<double>(i) / 4)),
          absl::StrCat(static_cast<double>(i) / 8),
          absl::StrFormat("%05d", i)};
}

std::string TextOf(const ParquetColumn& column, const ParquetValue& value) {
  if (value.is_null) return "null";
  switch (column.type) {
    case ParquetType::kFloat:
    case ParquetType::kDouble:
      return absl::StrCat(value.real);
    case ParquetType::kByteArray:
    case ParquetType::kFixedLenByteArray:
      return std::string(value.bytes);
    default:
      return absl::StrCat(value.integer);
  }
}

class ParquetFileTest : public ::testing::Test {
 protected:
  absl::StatusOr<ParquetFile> Open(const std::string& bytes, const ParquetLimits& limits = {}) {
    fs_.files()["/some.parquet"] = bytes;
    return ParquetFile::Open(fs_, "/some.parquet", limits);
  }
  // Opens and reads all columns but lists.
  absl::Status ReadAll(const std::string& bytes, const ParquetLimits& limits = {}) {
    const auto file = Open(bytes, limits);
    if (!file.ok()) return file.status();
    std::vector<size_t> places;
    for (size_t i = 0; i < file->columns().size(); ++i) {
      if (file->columns()[i].max_repetition_level == 0) places.push_back(i);
    }
    if (places.empty()) return absl::OkStatus();
    return file->ForEachRow(places, [&](int64_t row, absl::Span<const ParquetValue> values) {
      for (const ParquetValue& value : values) bytes_seen_ += value.bytes.size();
      return row > 1'000'000 ? absl::CancelledError("enough") : absl::OkStatus();
    });
  }

  MemoryFileSystem fs_;
  uint64_t bytes_seen_ = 0;
};

TEST_F(ParquetFileTest, EveryCodecEncodingAndPageVersionGivesTheSameRows) {
  for (const std::string name : kReadable) {
    ASSERT_OK_AND_ASSIGN(const ParquetFile file, Open(BytesOf(name)));
    EXPECT_EQ(file.rows(), kRows);
    EXPECT_EQ(file.row_groups().size(), 3u);
    const std::vector<size_t> places = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    int64_t next = 0;
    ASSERT_OK(file.ForEachRow(places, [&](int64_t row, absl::Span<const ParquetValue> values) {
      EXPECT_EQ(row, next++) << name;
      std::vector<std::string> texts;
      for (size_t i = 0; i < values.size(); ++i) {
        texts.push_back(TextOf(file.columns()[i], values[i]));
      }
      EXPECT_EQ(texts, WantedRow(row, name != "without_nulls")) << name << " row " << row;
      return absl::OkStatus();
    })) << name;
    EXPECT_EQ(next, kRows) << name;
  }
}

TEST_F(ParquetFileTest, ColumnsAreNamedWithTheirStructs) {
  ASSERT_OK_AND_ASSIGN(const ParquetFile file, Open(BytesOf("plain_v1")));
  std::vector<std::string> names;
  for (const ParquetColumn& column : file.columns()) names.push_back(column.name);
  EXPECT_THAT(names, ElementsAre("image.bytes", "image.path", "label", "text", "small", "truth",
                                 "real", "double", "fixed", "list.list.element"));
  EXPECT_EQ(file.columns()[0].max_definition_level, 2);
  EXPECT_EQ(file.columns()[7].max_definition_level, 0);
  EXPECT_THAT(file.FindColumn("label"), StatusIs(StatusCode::kOk));
  EXPECT_THAT(file.FindColumn("labels"),
              StatusIs(StatusCode::kNotFound, AllOf(HasSubstr("/some.parquet has no column labels"),
                                                    HasSubstr("image.bytes"))));
}

TEST_F(ParquetFileTest, OneRowGroupIsReadAloneAndTheCallbackMayEndIt) {
  ASSERT_OK_AND_ASSIGN(const ParquetFile file, Open(BytesOf("delta_v2")));
  std::vector<int64_t> rows;
  ASSERT_OK(file.ForEachRowOf(2, {8}, [&](int64_t row, absl::Span<const ParquetValue> values) {
    EXPECT_EQ(values[0].bytes, absl::StrFormat("%05d", row));
    rows.push_back(row);
    return absl::OkStatus();
  }));
  EXPECT_THAT(rows, ElementsAre(20, 21, 22, 23));
  EXPECT_THAT(file.ForEachRow({2},
                              [&](int64_t row, absl::Span<const ParquetValue>) {
                                return row == 12 ? absl::CancelledError("here") : absl::OkStatus();
                              }),
              StatusIs(StatusCode::kCancelled, "here"));
}

TEST_F(ParquetFileTest, UncompressedValuesAreFoundInPlace) {
  for (const std::string name : kReadable) {
    const std::string bytes = BytesOf(name);
    ASSERT_OK_AND_ASSIGN(const ParquetFile file, Open(bytes));
    ASSERT_OK(file.ForEachRow({0, 8}, [&](int64_t row, absl::Span<const ParquetValue> values) {
      const bool compressed = absl::StrContains(name, "_v1_");
      for (const ParquetValue& value : values) {
        // Differences put together what lies apart. Of zstd's pages the writer compresses some.
        const bool apart = absl::StrContains(name, "delta") && &value == &values[1];
        if (name != "plain_v2_zstd") {
          EXPECT_EQ(value.file_offset == ParquetValue::kNowhere, compressed || apart)
              << name << " row " << row;
        }
        if (value.file_offset == ParquetValue::kNowhere) continue;
        EXPECT_EQ(bytes.substr(value.file_offset, value.bytes.size()), value.bytes) << name;
      }
      return absl::OkStatus();
    }));
  }
}

TEST_F(ParquetFileTest, WhatIsNotReadIsRefusedByName) {
  EXPECT_THAT(ReadAll(BytesOf("lz4")),
              StatusIs(StatusCode::kUnimplemented,
                       AllOf(HasSubstr("/some.parquet: column image.bytes, page at byte 4: codec "),
                             HasSubstr("LZ4_RAW is not read"), HasSubstr("zstd"))));
  ASSERT_OK_AND_ASSIGN(const ParquetFile file, Open(BytesOf("plain_v1")));
  EXPECT_THAT(
      file.ForEachRow({9}, [](int64_t, auto) { return absl::OkStatus(); }),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("column list.list.element is a list")));
  EXPECT_THAT(Open(""), StatusIs(StatusCode::kInvalidArgument,
                                 HasSubstr("/some.parquet is no Parquet file")));
  EXPECT_THAT(Open("PAR1\x7f\xff\xff\x7fPAR1"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("larger than the file")));
  EXPECT_THAT(Open("PAR1\x01\x01\x01\x01PARE"),
              StatusIs(StatusCode::kUnimplemented, HasSubstr("encrypted")));
  EXPECT_THAT(ParquetFile::Open(fs_, "/none.parquet"), StatusIs(StatusCode::kNotFound));
}

TEST_F(ParquetFileTest, LimitsAreKept) {
  const std::string bytes = BytesOf("dictionary_v2");
  EXPECT_OK(ReadAll(bytes));
  ParquetLimits limits;
  limits.footer_bytes = 100;
  EXPECT_THAT(ReadAll(bytes, limits),
              StatusIs(StatusCode::kResourceExhausted, HasSubstr("footer")));
  limits = {};
  limits.page_bytes = 100;
  EXPECT_THAT(ReadAll(bytes, limits),
              StatusIs(StatusCode::kResourceExhausted, HasSubstr("smaller pages")));
  limits = {};
  limits.dictionary_values = 3;
  EXPECT_THAT(ReadAll(bytes, limits),
              StatusIs(StatusCode::kResourceExhausted, HasSubstr("dictionary")));
}

TEST_F(ParquetFileTest, AByteThatChangedUnderAChecksumIsFound) {
  std::string bytes = BytesOf("without_nulls");
  const size_t at = bytes.find(ImageBytes(7));
  ASSERT_NE(at, std::string::npos);
  bytes[at] ^= 1;
  EXPECT_THAT(ReadAll(bytes),
              StatusIs(StatusCode::kDataLoss,
                       AllOf(HasSubstr("column image.bytes, page at"), HasSubstr("CRC"))));
}

TEST_F(ParquetFileTest, WhatIsCutOffIsAnError) {
  const std::string bytes = BytesOf("dictionary_v1_snappy");
  for (size_t size = 0; size < bytes.size(); size += 7) {
    EXPECT_FALSE(ReadAll(bytes.substr(0, size)).ok()) << size;
    // Its end is there, and something before it is not.
    EXPECT_FALSE(ReadAll(bytes.substr(bytes.size() - size)).ok()) << size;
  }
}

TEST_F(ParquetFileTest, AnyChangedByteIsReadOrRefused) {
  ParquetLimits limits;
  limits.page_bytes = 1 << 20;
  int refused = 0;
  for (const std::string name : kReadable) {
    const std::string bytes = BytesOf(name);
    for (size_t at = 0; at < bytes.size(); at += 3) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(SplitMix64(at));
      refused += ReadAll(changed, limits).ok() ? 0 : 1;
    }
  }
  EXPECT_GT(refused, 1000);
}

class ImageRowsTest : public ParquetFileTest {};

TEST_F(ImageRowsTest, PicturesTheirNamesAndClassesAreFoundByTheMetadata) {
  ASSERT_OK_AND_ASSIGN(const ParquetFile file, Open(BytesOf("dictionary_v2")));
  ASSERT_OK_AND_ASSIGN(const ImageColumns columns, FindImageColumns(file));
  EXPECT_THAT(columns.classes, ElementsAre("ant", "bee", "cat"));
  int64_t next = 0;
  ASSERT_OK(ForEachImage(file, columns, [&](const ImageRow& image) {
    EXPECT_EQ(image.row, next);
    EXPECT_EQ(image.bytes, ImageBytes(next));
    EXPECT_NE(image.file_offset, ParquetValue::kNowhere);
    EXPECT_EQ(image.path, (next + 1) % 7 == 3 ? "" : absl::StrCat(next, ".png"));
    EXPECT_EQ(image.label, next % 7 == 3 ? -1 : next % 3);
    ++next;
    return absl::OkStatus();
  }));
  EXPECT_EQ(next, kRows);
}

TEST_F(ImageRowsTest, WithoutMetadataTheSchemaTells) {
  std::string bytes = BytesOf("plain_v1");
  const size_t at = bytes.find("huggingface");
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 'H';
  ASSERT_OK_AND_ASSIGN(const ParquetFile file, Open(bytes));
  ASSERT_OK_AND_ASSIGN(const ImageColumns columns, FindImageColumns(file));
  EXPECT_EQ(columns.bytes, 0u);
  EXPECT_EQ(columns.path, std::optional<size_t>(1));
  EXPECT_EQ(columns.label, std::optional<size_t>(2));
  EXPECT_TRUE(columns.classes.empty());
}

TEST_F(ImageRowsTest, ColumnsMayBeNamedAndMustFit) {
  ASSERT_OK_AND_ASSIGN(const ParquetFile file, Open(BytesOf("plain_v1")));
  ASSERT_OK_AND_ASSIGN(const ImageColumns columns, FindImageColumns(file, {"text", "small"}));
  EXPECT_EQ(columns.bytes, 3u);
  EXPECT_EQ(columns.path, std::nullopt);
  EXPECT_EQ(columns.label, std::optional<size_t>(4));
  EXPECT_THAT(FindImageColumns(file, {"photo", ""}), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(FindImageColumns(file, {"small", ""}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("want BYTE_ARRAY")));
  EXPECT_THAT(FindImageColumns(file, {"", "text"}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("want INT32 or INT64")));
  ASSERT_OK_AND_ASSIGN(const ImageColumns small, FindImageColumns(file, {"image", "small"}));
  EXPECT_THAT(ForEachImage(file, small, [](const ImageRow&) { return absl::OkStatus(); }),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("class -49 in row 1")));
  ASSERT_OK_AND_ASSIGN(const ImageColumns texts, FindImageColumns(file, {"text", "label"}));
  EXPECT_THAT(ForEachImage(file, texts, [](const ImageRow&) { return absl::OkStatus(); }),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("has no picture in row 1")));
}

}  // namespace
}  // namespace muster::worker
