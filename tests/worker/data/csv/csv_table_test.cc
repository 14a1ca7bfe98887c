#include "worker/data/csv/csv_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/fuzz/memory_file_system.h"
#include "tests/support/status_matchers.h"
#include "worker/data/csv/csv_records.h"

namespace muster::worker {
namespace {

using ::absl::StatusCode;
using ::muster::testing::MemoryFileSystem;
using ::muster::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CsvTableTest : public ::testing::Test {
 protected:
  absl::StatusOr<CsvTable> Read(const std::string& text, const CsvConfig& config = {"y"}) {
    fs_.files()["/some.csv"] = text;
    BlockHasher hasher;
    return ReadCsvTable(fs_, "/some.csv", config, hasher);
  }
  // All records, each as a list.
  absl::StatusOr<std::vector<std::vector<std::string>>> Records(const std::string& text) {
    fs_.files()["/some.csv"] = text;
    BlockHasher hasher;
    const std::string path = "/some.csv";
    CsvRecords records(fs_, path, ',', hasher);
    std::vector<std::vector<std::string>> all;
    std::vector<std::string> fields;
    while (true) {
      auto more = records.Next(fields);
      if (!more.ok()) return more.status();
      if (!*more) return all;
      all.push_back(fields);
    }
  }

  MemoryFileSystem fs_;
};

TEST_F(CsvTableTest, FeaturesAreAllColumnsButTheTargetInTheirOrder) {
  ASSERT_OK_AND_ASSIGN(const CsvTable table, Read("a,y,b\n1,2,-0.5\n 4 ,0,1e3\n"));
  EXPECT_EQ(table.rows, 2);
  EXPECT_THAT(table.feature_names, ElementsAre("a", "b"));
  EXPECT_THAT(table.features, ElementsAre(1, -0.5f, 4, 1000));
  EXPECT_THAT(table.labels, ElementsAre(2, 0));
  EXPECT_EQ(table.classes, 3);
  EXPECT_THAT(table.class_names, IsEmpty());
  EXPECT_THAT(table.numbers, IsEmpty());
}

TEST_F(CsvTableTest, FeaturesMayBeNamed) {
  ASSERT_OK_AND_ASSIGN(const CsvTable table, Read(",a,y,note,b\n0,1,2,x,3\n", {"y", {"b", "a"}}));
  EXPECT_THAT(table.feature_names, ElementsAre("b", "a"));
  EXPECT_THAT(table.features, ElementsAre(3, 1));
}

TEST_F(CsvTableTest, ClassesByNameAreNumberedInTheOrderOfTheirBytes) {
  ASSERT_OK_AND_ASSIGN(const CsvTable table, Read("a,y\n1,dog\n2,\"cat, black\"\n3,dog\n4,Ant\n"));
  EXPECT_THAT(table.class_names, ElementsAre("Ant", "cat, black", "dog"));
  EXPECT_THAT(table.labels, ElementsAre(2, 1, 2, 0));
  EXPECT_EQ(table.classes, 3);
  // One that is no number makes names of all.
  ASSERT_OK_AND_ASSIGN(const CsvTable mixed, Read("a,y\n1,10\n2,9\n3,none\n"));
  EXPECT_THAT(mixed.class_names, ElementsAre("10", "9", "none"));
  EXPECT_THAT(mixed.labels, ElementsAre(0, 1, 2));
  ASSERT_OK_AND_ASSIGN(const CsvTable below, Read("a,y\n1,-1\n2,1\n"));
  EXPECT_THAT(below.class_names, ElementsAre("-1", "1"));
}

TEST_F(CsvTableTest, AnotherFilesClassesAreTaken) {
  CsvConfig config{"y"};
  config.class_names = {"cat", "dog"};
  ASSERT_OK_AND_ASSIGN(const CsvTable table, Read("a,y\n1,dog\n", config));
  EXPECT_THAT(table.labels, ElementsAre(1));
  EXPECT_EQ(table.classes, 2);
  EXPECT_THAT(Read("a,y\n1,dog\n2,cow\n", config),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("/some.csv:3: column y is \"cow\", want one of the classes")));
}

TEST_F(CsvTableTest, NumbersMayBeLearnt) {
  ASSERT_OK_AND_ASSIGN(const CsvTable table,
                       Read("a,y\n1,0.25\n2,-7\n", {"y", {}, CsvTarget::kNumber}));
  EXPECT_THAT(table.numbers, ElementsAre(0.25f, -7));
  EXPECT_THAT(table.labels, IsEmpty());
}

TEST_F(CsvTableTest, FieldsAreQuotedAndLinesEndInTwoWays) {
  ASSERT_OK_AND_ASSIGN(
      const auto records,
      Records("\xef\xbb\xbfid,\"the \"\"name\"\"\"\r\n1,\"two\nlines, one field\"\r\n2,\n\n\r\n"));
  EXPECT_THAT(records,
              ElementsAre(ElementsAre("id", "the \"name\""),
                          ElementsAre("1", "two\nlines, one field"), ElementsAre("2", "")));
  ASSERT_OK_AND_ASSIGN(const auto without_end, Records("a,b\n1,\"2\""));
  EXPECT_THAT(without_end, ElementsAre(ElementsAre("a", "b"), ElementsAre("1", "2")));
  ASSERT_OK_AND_ASSIGN(const auto nothing, Records(""));
  EXPECT_THAT(nothing, IsEmpty());
}

TEST_F(CsvTableTest, PiecesOfTheFileJoinInsideOfFields) {
  // Quotes, ends of lines and fields lie across the ends of pieces of 4 MiB.
  const std::string row = "\"12\"\"3\",4.5,\"x\ny\"\r\n";
  std::string text;
  size_t count = 0;
  for (; text.size() < (9u << 20); ++count) text += row;
  ASSERT_OK_AND_ASSIGN(const auto records, Records(text));
  ASSERT_EQ(records.size(), count);
  for (const auto& record : records) ASSERT_THAT(record, ElementsAre("12\"3", "4.5", "x\ny"));
}

TEST_F(CsvTableTest, TheHasherIsGivenTheFile) {
  const auto hash = [&](const std::string& text) {
    fs_.files()["/some.csv"] = text;
    BlockHasher hasher;
    EXPECT_OK(ReadCsvTable(fs_, "/some.csv", {"y"}, hasher));
    return HashToHex(hasher.Finish().whole);
  };
  BlockHasher whole;
  whole.Update("a,y\n1,2\n");
  EXPECT_EQ(hash("a,y\n1,2\n"), HashToHex(whole.Finish().whole));
  EXPECT_NE(hash("a,y\n1,2\n"), hash("a,y\n1,2\n\n"));
}

TEST_F(CsvTableTest, WhatIsMissingOrWrongIsNamedWithItsLine) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"a,y\n1,2\n,3\n", "/some.csv:3: column a is missing, want a finite number"},
      {"a,y\n1,\n", "/some.csv:2: column y is missing, want a class"},
      {"a,y\n\"x\ny\",1\n2,3\n", "/some.csv:2: column a is \"x\ny\", want a finite number"},
      {"a,\"y\"\n1,\"b\nc\"\n\"\",3\n", "/some.csv:4: column a is missing"},
      {"a,y\nNA,2\n", "column a is \"NA\""},
      {"a,y\nnan,2\n", "column a is \"nan\""},
      {"a,y\n-inf,2\n", "column a is \"-inf\""},
      {"a,y\n1e39,2\n", "column a is \"1e39\""},
      {"a,y\n1,2,3\n", "/some.csv:2: 3 fields, want 2"},
      {"a,y\n1\n", "/some.csv:2: 1 fields, want 2"},
      {"a,y\n\n1,2\n", "/some.csv:2: the line is empty, but others follow"},
      {"a,y\n1\"2,3\n", "/some.csv:2: a quote stands in a field"},
      {"a,y\n\"1\"2,3\n", "/some.csv:2: something stands behind a closing quote"},
      {"a,y\n1,2\n\"1,2\n3,4\n", "/some.csv:3: a quote is not closed"},
      {"a,a,y\n", "/some.csv:1: two columns are called \"a\""},
      {",a,y\n0,1,2\n", "column 1 has no name"},
      {"y\n1\n", "no column besides the target"},
      {"a,y\n", "/some.csv has no row below its header"},
      {"", "/some.csv is empty"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(Read(c.text), StatusIs(StatusCode::kInvalidArgument, HasSubstr(c.message)))
        << c.text;
  }
  EXPECT_THAT(Read("a,b\n1,2\n"),
              StatusIs(StatusCode::kNotFound, HasSubstr("no column \"y\"; it has a, b")));
  EXPECT_THAT(Read("a,y\n1,2\n", {"y", {"c"}}),
              StatusIs(StatusCode::kNotFound, HasSubstr("no column \"c\"")));
  EXPECT_THAT(Read("a,y\n1,2\n", {"y", {"y"}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("target and feature")));
  CsvConfig quotes{"y"};
  quotes.delimiter = '"';
  EXPECT_THAT(Read("a,y\n1,2\n", quotes), StatusIs(StatusCode::kInvalidArgument));
  BlockHasher hasher;
  EXPECT_THAT(ReadCsvTable(fs_, "/none.csv", {"y"}, hasher), StatusIs(StatusCode::kNotFound));
}

TEST_F(CsvTableTest, OtherCharactersMayDivideFields) {
  CsvConfig tabs{"y"};
  tabs.delimiter = '\t';
  ASSERT_OK_AND_ASSIGN(const CsvTable table, Read("a\ty\n1\t2\n", tabs));
  EXPECT_THAT(table.features, ElementsAre(1));
}

TEST_F(CsvTableTest, RecordsAreBounded) {
  const std::string wide(kMostCsvColumns, ',');
  EXPECT_THAT(Records(wide), StatusIs(StatusCode::kInvalidArgument, HasSubstr("65536 columns")));
  EXPECT_THAT(Records("\"" + std::string(kMostCsvRecordBytes + 1, 'x')),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("more than 16777216 bytes")));
}

}  // namespace
}  // namespace muster::worker
