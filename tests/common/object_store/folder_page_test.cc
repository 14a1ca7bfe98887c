#include "common/object_store/folder_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace muster::testing {
namespace {

TEST(FolderPage, WhatNginxWritesIsRead) {
  ASSERT_OK_AND_ASSIGN(const std::vector<FileInfo> files, ParseFolderPage(R"([
{ "name":"train", "type":"directory", "mtime":"Fri, 27 Nov 2026 08:00:00 GMT" },
{ "name":"b 100%.tar", "type":"file", "mtime":"Fri, 27 Nov 2026 08:00:00 GMT", "size":7 },
{ "name":"a?.tar", "type":"file", "mtime":"x", "size":18446744073709551615 },
{ "name":"pipe", "type":"other", "mtime":"x" }
])"));
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files[0].name, "a%3F.tar");
  EXPECT_EQ(files[0].size_bytes, 18446744073709551615u);
  EXPECT_EQ(files[1].name, "b 100%25.tar");
  EXPECT_EQ(files[1].size_bytes, 7u);
  EXPECT_TRUE(files[2].is_directory);
}

TEST(FolderPage, AnEmptyFolderHasNone) {
  ASSERT_OK_AND_ASSIGN(const std::vector<FileInfo> files, ParseFolderPage("[]"));
  EXPECT_TRUE(files.empty());
}

TEST(FolderPage, WhatIsNoListIsRefused) {
  for (const std::string& page :
       {std::string(), std::string("<html>"), std::string("{}"), std::string("5"),
        std::string("\"x\""), std::string("[1]"), std::string("[[]]"), std::string("[{}]"),
        std::string(R"([{"name":"a","type":"file","size":1})"),
        std::string(R"([{"name":"../a","type":"file"}])"),
        std::string(R"([{"name":"..","type":"file"}])"),
        std::string(R"([{"name":"a\nb","type":"file"}])"),
        std::string(R"([{"name":1,"type":"file"}])"),
        std::string(R"([{"name":null,"type":"file"}])"),
        std::string(R"([{"name":"a","type":"file","size":-1}])"),
        std::string(R"([{"name":"a","type":"file","x":[1]}])"),
        std::string(R"([{"name":"a","type":"file","x":{"size":1}}])"), std::string(100'000, '[')}) {
    EXPECT_THAT(ParseFolderPage(page), StatusIs(absl::StatusCode::kInvalidArgument))
        << page.substr(0, 100);
  }
}

}  // namespace
}  // namespace muster::testing
