// Shards on a server: with an index beside them only that is read, and a header here and there.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/common/object_store/scripted_server.h"
#include "tests/fuzz/memory_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/data/formats/support/format_bytes.h"
#include "worker/data/formats/shard_index.h"
#include "worker/data/index/data_indexes.h"

namespace muster::worker {
namespace {

using ::absl::StatusCode;
using ::muster::testing::MemoryFileSystem;
using ::muster::testing::ScriptedServer;
using ::muster::testing::ServeObject;
using ::muster::testing::ServerRequest;
using ::muster::testing::StatusIs;
using ::muster::testing::TarEnd;
using ::muster::testing::TarFile;
using ::muster::testing::TempDir;
using ::testing::HasSubstr;

class RemoteShardsTest : public ::testing::Test {
 protected:
  static constexpr int kShards = 2, kPictures = 30;

  RemoteShardsTest() {
    for (int shard = 0; shard < kShards; ++shard) {
      std::string members;
      for (int i = 0; i < kPictures; ++i) {
        const std::string key = absl::StrCat(shard, "/", i);
        members += TarFile(key + ".jpg", std::string(100'000, 'p')) +
                   TarFile(key + ".cls", absl::StrCat(i % 7));
      }
      objects_.files()[absl::StrCat("/train-", shard, ".tar")] = members + TarEnd();
    }
  }
  void PutIndexes() {
    for (int shard = 0; shard < kShards; ++shard) {
      const auto text = MakeShardIndex(objects_, absl::StrCat("/train-", shard, ".tar"), {});
      ASSERT_OK(text);
      objects_.files()[absl::StrCat("/train-", shard, ".idx")] = *text;
    }
  }
  absl::StatusOr<DataIndexes> Index() {
    AnyFileSystem data(PosixFileSystem(), {.cache_folder = dir_ / absl::StrCat("cache", runs_)});
    IndexOptions options;
    options.path = server_.Url("/train-{0..1}.tar");
    options.folder = dir_ / absl::StrCat("index", runs_++);
    return OpenOrMakeIndexes(data, PosixFileSystem(), options);
  }
  void Answer(const ServerRequest& request, ScriptedServer::Answer& answer) {
    const auto found = objects_.files().find(request.target);
    if (found == objects_.files().end()) return answer.Reply(404, {}, "");
    ServeObject(found->second, absl::StrCat("\"", request.target, "\""), request, answer);
  }

  TempDir dir_;
  MemoryFileSystem objects_;
  int runs_ = 0;
  ScriptedServer server_{[this](const ServerRequest& request, ScriptedServer::Answer& answer) {
    Answer(request, answer);
  }};
};

TEST_F(RemoteShardsTest, AnIndexBesideThemSparesTheirBytes) {
  const absl::StatusOr<DataIndexes> walked = Index();
  ASSERT_OK(walked);
  const uint64_t whole = server_.body_bytes();
  EXPECT_GT(whole, uint64_t{kShards} * kPictures * 100'000);
  PutIndexes();
  const absl::StatusOr<DataIndexes> read = Index();
  ASSERT_OK(read);
  EXPECT_LT(server_.body_bytes() - whole, 20'000u);
  for (size_t split = 0; split < 3; ++split)
    EXPECT_EQ(read->splits[split]->fingerprint(), walked->splits[split]->fingerprint());
  EXPECT_EQ(read->splits[0]->greatest_label(), 6);
}

TEST_F(RemoteShardsTest, AnIndexOfAnotherShardIsAnErrorThatNamesBoth) {
  PutIndexes();
  // The same size, but other pictures: the second one is larger, and one goes without a label.
  std::string members = TarFile("0/0.jpg", std::string(99'000, 'p'));
  std::string& shard = objects_.files()["/train-0.tar"];
  members += shard.substr(0, shard.size() - members.size());
  shard = members;
  const absl::StatusOr<DataIndexes> read = Index();
  EXPECT_THAT(read, StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(read.status().message(), HasSubstr("/train-0.idx line "));
  EXPECT_THAT(read.status().message(), HasSubstr("/train-0.tar"));
}

}  // namespace
}  // namespace muster::worker
