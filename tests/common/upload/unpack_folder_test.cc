// What somebody who means harm may send.
#include "common/upload/unpack_folder.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/delimited_message_util.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/upload/limits.h"
#include "muster/v1/upload_service.pb.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster {
namespace {

using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;

namespace files = std::filesystem;

v1::FolderEntry Entry(const std::string& path, v1::FolderEntry::Kind kind,
                      const std::string& text = "") {
  v1::FolderEntry entry;
  entry.set_path(path);
  entry.set_kind(kind);
  if (kind == v1::FolderEntry::LINK) {
    entry.set_target(text);
  } else {
    entry.set_content(text);
  }
  return entry;
}
v1::FolderEntry File(const std::string& path) { return Entry(path, v1::FolderEntry::FILE, "x"); }
v1::FolderEntry Folder(const std::string& path) { return Entry(path, v1::FolderEntry::FOLDER); }
v1::FolderEntry Link(const std::string& path, const std::string& target) {
  return Entry(path, v1::FolderEntry::LINK, target);
}

std::string Archive(const std::vector<v1::FolderEntry>& entries) {
  std::ostringstream out;
  for (const v1::FolderEntry& entry : entries) {
    google::protobuf::util::SerializeDelimitedToOstream(entry, &out);
  }
  return out.str();
}

class UnpackFolderTest : public ::testing::Test {
 protected:
  // Unpacks into a folder beside a file that must stay as it is.
  absl::Status Unpack(const std::string& archive) {
    files::remove_all(dir_ / "out");
    return UnpackFolder(archive, dir_ / "out");
  }
  void ExpectRefused(const std::string& archive, const std::string& what) {
    EXPECT_THAT(Unpack(archive), StatusIs(absl::StatusCode::kInvalidArgument)) << what;
    size_t outside = 0;
    for (const auto& entry : files::directory_iterator(dir_.path())) {
      outside += entry.path().filename() != "out";
    }
    EXPECT_EQ(outside, 0u) << what << ": something was written beside the folder";
  }

  TempDir dir_;
};

TEST_F(UnpackFolderTest, PathsThatLeaveAreRefused) {
  for (const char* path : {"../x", "/tmp/x", "a/../../x", "..", ".", "", "a//b", "a/"}) {
    ExpectRefused(Archive({File(path)}), path);
    ExpectRefused(Archive({Folder(path)}), path);
  }
  ExpectRefused(Archive({File(std::string("a\0b", 3))}), "a zero byte");
  ExpectRefused(Archive({File(std::string(kMaxUploadPathBytes + 1, 'a'))}), "a long path");
}

TEST_F(UnpackFolderTest, NothingIsWrittenThroughALink) {
  ExpectRefused(Archive({Link("l", "..")}), "a link to the parent");
  ExpectRefused(Archive({Link("l", "/tmp")}), "an absolute link");
  ExpectRefused(Archive({Folder("d"), Link("l", "d"), File("l/x")}), "a file through a link");
  ExpectRefused(Archive({Link("l", "x"), Folder("l/y")}), "a folder through a link");
  ExpectRefused(Archive({Folder("a"), Link("a/up", ".."), Link("m", "a/up/../etc")}),
                "up again behind a link");
}

TEST_F(UnpackFolderTest, WhatIsNoArchiveIsRefused) {
  ExpectRefused(Archive({Entry("dev", static_cast<v1::FolderEntry::Kind>(9))}), "a device");
  ExpectRefused(Archive({Entry("none", v1::FolderEntry::KIND_UNSPECIFIED)}), "no kind");
  ExpectRefused(Archive({File("b"), File("a")}), "not sorted");
  ExpectRefused(Archive({File("a"), File("a")}), "twice");
  ExpectRefused(Archive({File("d/x")}), "a folder that is not there");
  ExpectRefused(Archive({File("a"), File("a/b")}), "a file as a folder");
  ExpectRefused("\xff\xff\xff\xff\xff\xff\xff", "no length");
  ExpectRefused(std::string("\xff\xff\xff\x7f") + "abc", "a length beyond the end");
  ExpectRefused(std::string("\x03") + "\xff\xff\xff", "no message");
  ExpectRefused(std::string(kMaxUploadBytes + 1, '\0'), "too large");
}

TEST_F(UnpackFolderTest, AnArchiveThatWasCutIsRefusedWhereverItWasCut) {
  const std::string whole = Archive({File("a"), Folder("b"), File("b/c"), Link("d", "b")});
  ASSERT_OK(Unpack(whole));
  EXPECT_TRUE(files::exists(dir_ / "out/d/c"));
  const size_t first = Archive({File("a")}).size();
  const size_t second = Archive({File("a"), Folder("b")}).size();
  const size_t third = Archive({File("a"), Folder("b"), File("b/c")}).size();
  for (size_t size = 1; size < whole.size(); ++size) {
    if (size == first || size == second || size == third)
      continue;  // whole entries: the hash tells
    ExpectRefused(whole.substr(0, size), std::to_string(size));
  }
}

TEST_F(UnpackFolderTest, TooManyEntriesAreRefused) {
  std::vector<v1::FolderEntry> entries;
  for (size_t i = 0; i <= kMaxUploadEntries; ++i) {
    std::string name = std::to_string(i);
    entries.push_back(Link(std::string(8 - name.size(), '0') + name, "x"));
  }
  ExpectRefused(Archive(entries), "a link too many");
}

TEST_F(UnpackFolderTest, OthersMayReadItWhateverTheUmask) {
  const mode_t before = ::umask(0077);
  const absl::Status unpacked = Unpack(Archive({File("a"), Folder("b"), File("b/c")}));
  ::umask(before);
  ASSERT_OK(unpacked);
  const auto mode = [this](const std::string& name) {
    return static_cast<unsigned>(files::status(dir_ / name).permissions());
  };
  EXPECT_EQ(mode("out"), 0755u);
  EXPECT_EQ(mode("out/a"), 0644u);
  EXPECT_EQ(mode("out/b"), 0755u);
  EXPECT_EQ(mode("out/b/c"), 0644u);
}

TEST_F(UnpackFolderTest, AFolderThatIsThereIsNotTouched) {
  files::create_directories(dir_ / "out");
  EXPECT_THAT(UnpackFolder(Archive({File("a")}), dir_ / "out"),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_TRUE(files::is_empty(dir_ / "out"));
}

}  // namespace
}  // namespace muster
