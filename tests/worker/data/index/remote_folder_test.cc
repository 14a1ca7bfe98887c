// A folder of pictures on a server that lists folders as nginx does.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "tests/common/object_store/scripted_server.h"
#include "tests/fuzz/memory_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/data/index/data_indexes.h"

namespace muster::worker {
namespace {

using ::absl::StatusCode;
using ::muster::testing::MemoryFileSystem;
using ::muster::testing::ScriptedServer;
using ::muster::testing::ServeObject;
using ::muster::testing::ServerRequest;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;

class RemoteFolderTest : public ::testing::Test {
 protected:
  RemoteFolderTest() {
    for (const char* name : {"train/a/1.jpg", "train/a/deep/2.jpg", "train/b/3.jpg", "val/a/4.jpg"})
      Put(name);
  }
  void Put(const std::string& name, const std::string& bytes = "picture") {
    objects_.files()["/photos/" + name] = bytes;
  }
  absl::StatusOr<DataIndexes> Open() {
    AnyFileSystem data(PosixFileSystem(), {.cache_folder = dir_ / "cache"});
    IndexOptions options;
    options.path = server_.Url("/photos");
    options.folder = dir_ / "index";
    return OpenOrMakeIndexes(data, PosixFileSystem(), options);
  }
  uint64_t TrainingSamples() {
    const absl::StatusOr<DataIndexes> data = Open();
    EXPECT_OK(data);
    return data.ok() ? data->splits[0]->size() : 0;
  }
  void Answer(const ServerRequest& request, ScriptedServer::Answer& answer) {
    absl::string_view folder = request.target;
    if (request.method == "GET" && absl::ConsumeSuffix(&folder, "/")) {
      if (folder == is_down_) return answer.Reply(403, {}, "");
      nlohmann::json list = nlohmann::json::array();
      const std::vector<FileInfo> entries = *objects_.List(std::string(folder));
      for (const FileInfo& entry : entries) {
        list.push_back({{"name", entry.name},
                        {"type", entry.is_directory ? "directory" : "file"},
                        {"size", entry.size_bytes}});
      }
      return answer.Reply(200, {{"Content-Type", "application/json"}}, list.dump());
    }
    const auto found = objects_.files().find(request.target);
    if (found == objects_.files().end()) return answer.Reply(404, {}, "");
    ServeObject(found->second, "\"tag\"", request, answer);
  }

  TempDir dir_;
  MemoryFileSystem objects_;
  std::string is_down_;
  ScriptedServer server_{[this](const ServerRequest& request, ScriptedServer::Answer& answer) {
    Answer(request, answer);
  }};
};

TEST_F(RemoteFolderTest, IsIndexedAgainWhenPicturesComeGoOrGrow) {
  EXPECT_EQ(TrainingSamples(), 3u);
  const absl::StatusOr<DataIndexes> before = Open();
  ASSERT_OK(before);
  const absl::StatusOr<DataIndexes> again = Open();
  ASSERT_OK(again);
  EXPECT_EQ(again->splits[0]->path(), before->splits[0]->path());
  Put("train/a/5.jpg");
  EXPECT_EQ(TrainingSamples(), 4u);
  Put("train/a/deep/6.jpg");
  EXPECT_EQ(TrainingSamples(), 5u);
  objects_.files().erase("/photos/train/b/3.jpg");
  Put("train/b/7.jpg");
  const absl::StatusOr<DataIndexes> replaced = Open();
  ASSERT_OK(replaced);
  EXPECT_OK(replaced->splits[0]->Find("b/7"));
  Put("train/a/1.jpg", "a larger picture");
  const absl::StatusOr<DataIndexes> grown = Open();
  ASSERT_OK(grown);
  const auto place = grown->splits[0]->Find("a/1");
  ASSERT_OK(place);
  EXPECT_EQ(grown->splits[0]->At(*place)->size, std::string("a larger picture").size());
}

// Another name of the index would follow from it, on one machine and not on the others.
TEST_F(RemoteFolderTest, AFolderThatCannotBeListedIsAnError) {
  ASSERT_OK(Open());
  is_down_ = "/photos/train/b";
  EXPECT_THAT(Open(), StatusIs(StatusCode::kPermissionDenied));
}

}  // namespace
}  // namespace muster::worker
