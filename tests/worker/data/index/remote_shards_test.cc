// Shards on a server: with an index beside them only that is read, and a header here and there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "tests/common/object_store/scripted_server.h"
#include "tests/fuzz/memory_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/data/formats/support/format_bytes.h"
#include "worker/data/formats/sample_reader.h"
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
using ::testing::Not;

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
  absl::StatusOr<DataIndexes> Index(std::string folder = "") {
    if (folder.empty()) folder = absl::StrCat("index", runs_);
    AnyFileSystem data(PosixFileSystem(), {.cache_folder = dir_ / absl::StrCat("cache", runs_++)});
    IndexOptions options;
    options.path = server_.Url("/train-{0..1}.tar") + query_;
    options.folder = dir_ / folder;
    return OpenOrMakeIndexes(data, PosixFileSystem(), options);
  }
  void Answer(const ServerRequest& request, ScriptedServer::Answer& answer) {
    absl::string_view target = request.target;
    if (!absl::ConsumeSuffix(&target, query_)) return answer.Reply(403, {}, "");
    const auto found = objects_.files().find(std::string(target));
    if (found == objects_.files().end()) return answer.Reply(code_of_what_is_not_there_, {}, "");
    const size_t etag = std::hash<std::string>()(found->second);
    ServeObject(found->second, absl::StrCat("\"", etag, "\""), request, answer);
  }

  TempDir dir_;
  MemoryFileSystem objects_;
  std::string query_;  // that requests must have
  int runs_ = 0;
  int code_of_what_is_not_there_ = 404;
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

// As S3 and CloudFront answer to who may read objects and not list them.
TEST_F(RemoteShardsTest, ShardsThatMayNotBeListedAreRead) {
  code_of_what_is_not_there_ = 403;
  const absl::StatusOr<DataIndexes> read = Index();
  ASSERT_OK(read);
  EXPECT_EQ(read->splits[0]->size() + read->splits[1]->size() + read->splits[2]->size(), 60u);
}

// Of another shard, or none at all, as servers answer that have a page for what is not there.
TEST_F(RemoteShardsTest, AFileBesideThatIsNotItsIndexIsWarnedOfAndTheShardIsRead) {
  const absl::StatusOr<DataIndexes> walked = Index();
  ASSERT_OK(walked);
  PutIndexes();
  std::string& other = objects_.files()["/train-0.idx"];
  other = absl::StrReplaceAll(other, {{"0/0.jpg", "0/x.jpg"}, {"0/0.cls", "0/x.cls"}});
  objects_.files()["/train-1.idx"] = "<html>Not found, but never mind</html>";
  ::testing::internal::CaptureStderr();
  const absl::StatusOr<DataIndexes> read = Index();
  const std::string log = ::testing::internal::GetCapturedStderr();
  ASSERT_OK(read);
  for (size_t split = 0; split < 3; ++split)
    EXPECT_EQ(read->splits[split]->fingerprint(), walked->splits[split]->fingerprint());
  EXPECT_THAT(log, HasSubstr("shard_index_ignored"));
  EXPECT_THAT(log, HasSubstr("/train-0.idx line "));
  EXPECT_THAT(log, HasSubstr("/train-1.tar"));
}

TEST_F(RemoteShardsTest, AUrlThatIsSignedAnewHasTheSameIndexAndItsFilesAreReadByIt) {
  code_of_what_is_not_there_ = 403;
  query_ = "?sig=first-secret";
  ::testing::internal::CaptureStderr();
  const absl::StatusOr<DataIndexes> first = Index("index");
  ASSERT_OK(first);
  query_ = "?sig=second-secret";
  AnyFileSystem data(PosixFileSystem(), {.cache_folder = dir_ / "another cache"});
  IndexOptions options;
  options.path = server_.Url("/train-{0..1}.tar") + query_;
  options.folder = dir_ / "index";
  const absl::StatusOr<DataIndexes> second = OpenOrMakeIndexes(data, PosixFileSystem(), options);
  ASSERT_OK(second);
  EXPECT_EQ(second->splits[0]->path(), first->splits[0]->path());
  const auto place = second->splits[0]->PlaceOf(0);
  ASSERT_OK(place);
  EXPECT_THAT(std::string(place->file.path), Not(HasSubstr("secret")));
  std::string picture(place->sample.size, 'x');
  EXPECT_OK(ReadSample(data, std::string(place->file.path), place->sample.offset,
                       place->sample.size, picture.data()));
  EXPECT_EQ(picture, std::string(100'000, 'p'));
  query_ = "?sig=third-secret";
  const absl::Status refused = ReadSample(data, server_.Url("/other.tar"), 0, 10, picture.data());
  EXPECT_THAT(refused, StatusIs(StatusCode::kPermissionDenied));
  EXPECT_THAT(absl::StrCat(refused.message(), ::testing::internal::GetCapturedStderr()),
              Not(HasSubstr("secret")));
}

TEST_F(RemoteShardsTest, AnotherIndexBesideThemIsSeen) {
  PutIndexes();
  const absl::StatusOr<DataIndexes> before = Index("index");
  ASSERT_OK(before);
  EXPECT_EQ(before->splits[0]->greatest_label(), 6);
  std::string& labels = objects_.files()["/train-0.idx"];
  labels = absl::StrReplaceAll(labels, {{"\n6\n", "\n8\n"}});
  const absl::StatusOr<DataIndexes> after = Index("index");
  ASSERT_OK(after);
  EXPECT_EQ(after->splits[0]->greatest_label(), 8);
}

}  // namespace
}  // namespace muster::worker
