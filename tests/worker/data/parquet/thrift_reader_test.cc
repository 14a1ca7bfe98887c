#include "worker/data/parquet/thrift_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/status_matchers.h"
#include "worker/data/parquet/page_header.h"
#include "worker/data/parquet/run_length.h"

namespace muster::worker {
namespace {

using ::absl::StatusCode;
using ::muster::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Raw(std::initializer_list<int> bytes) {
  return std::string(bytes.begin(), bytes.end());
}

TEST(ThriftReaderTest, FieldsAreReadAndTheOthersSkipped) {
  // 1: i32 -3; 2: true; 3: double; 4: list of 2 strings; 20: i64 300; 21: map of one; stop.
  const std::string bytes =
      Raw({0x15, 0x05, 0x11, 0x17, 0,    0,  0,    0,    0,    0, 0,    0, 0x19, 0x28, 1,
           'a',  2,    'b',  'c',  0x06, 40, 0xd8, 0x04, 0x1b, 1, 0x58, 2, 1,    'x',  0});
  ThriftReader reader(bytes);
  int64_t number = 0, large = 0;
  bool truth = false;
  std::vector<std::string> texts;
  reader.ReadStruct([&](int64_t id, ThriftType type) {
    if (id == 1) number = reader.ReadInteger(type);
    if (id == 2) truth = reader.ReadBool(type);
    if (id == 4) {
      reader.ReadList(type,
                      [&](ThriftType element) { texts.emplace_back(reader.ReadBinary(element)); });
    }
    if (id == 20) large = reader.ReadInteger(type);
    return id == 1 || id == 2 || id == 4 || id == 20;
  });
  ASSERT_OK(reader.status());
  EXPECT_EQ(number, -3);
  EXPECT_TRUE(truth);
  EXPECT_THAT(texts, ElementsAre("a", "bc"));
  EXPECT_EQ(large, 300);
  EXPECT_EQ(reader.position(), bytes.size());
}

TEST(ThriftReaderTest, WhatEndsEarlyIsToldFromWhatIsWrong) {
  const auto read = [](const std::string& bytes) {
    ThriftReader reader(bytes);
    reader.ReadStruct([](int64_t, ThriftType) { return false; });
    return std::make_pair(reader.ended(), reader.status());
  };
  EXPECT_TRUE(read(Raw({0x15})).first);
  EXPECT_TRUE(read(Raw({0x18, 0xff, 0xff, 0xff, 0xff, 0x0f, 'a'})).first);
  EXPECT_TRUE(read(Raw({0x19, 0xf5, 0xff, 0xff, 0xff, 0xff, 0x0f})).first);
  EXPECT_THAT(read(Raw({0x1e, 0})).second,
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("no known type")));
  EXPECT_THAT(read("\x16" + std::string(10, '\xff') + std::string(1, '\0')).second,
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("more than 64 bits")));
  EXPECT_THAT(read(std::string(100, '\x1c')).second,
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("too deep")));
}

TEST(ThriftReaderTest, APageHeaderThatEndsEarlyAsksForMore) {
  // A dictionary page of 3 values in 10 bytes.
  const std::string header =
      Raw({0x15, 0x04, 0x15, 0x14, 0x15, 0x14, 0x4c, 0x15, 0x06, 0x15, 0, 0, 0});
  for (size_t size = 0; size < header.size(); ++size) {
    EXPECT_THAT(ParseParquetPageHeader(header.substr(0, size)), StatusIs(StatusCode::kOutOfRange))
        << size;
  }
  ASSERT_OK_AND_ASSIGN(const ParquetPageHeader parsed, ParseParquetPageHeader(header + "rest"));
  EXPECT_EQ(parsed.header_bytes, header.size());
  EXPECT_EQ(parsed.type, ParquetPageType::kDictionary);
  EXPECT_EQ(parsed.values, 3);
  EXPECT_EQ(parsed.compressed_bytes, 10);
}

TEST(RunLengthReaderTest, RunsAndPackedGroupsFollowEachOther) {
  // 4 times 5, then the numbers 0 to 7 of three bits, as Encodings.md has them.
  const std::string bytes = Raw({0x08, 5, 0x03, 0x88, 0xc6, 0xfa});
  RunLengthReader reader(bytes, 3);
  std::vector<uint32_t> all;
  for (uint32_t value = 0; reader.Next(value);) all.push_back(value);
  EXPECT_THAT(all, ElementsAre(5, 5, 5, 5, 0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(RunLengthReaderTest, AGroupThatIsCutOffGivesWhatItHas) {
  RunLengthReader reader(absl::string_view("\x03\x88\xc6", 3), 3);
  int count = 0;
  for (uint32_t value = 0; reader.Next(value);) ++count;
  EXPECT_EQ(count, 5);
}

}  // namespace
}  // namespace muster::worker
