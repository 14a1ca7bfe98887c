#include "worker/data/formats/find_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/support/unlistable_files.h"
#include "tests/worker/data/formats/support/format_bytes.h"
#include "worker/data/formats/file_pattern.h"

namespace muster::worker {
namespace {

using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::muster::testing::UnlistableFiles;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FindFormatTest : public ::testing::Test {
 protected:
  void Write(const std::vector<std::string>& names, const std::string& bytes = "x") {
    for (const std::string& name : names) {
      const std::filesystem::path path = dir_ / name;
      std::filesystem::create_directories(path.parent_path());
      std::ofstream(path, std::ios::binary) << bytes;
    }
  }
  FoundData Find(const std::string& name = "") {
    const auto found = FindFormat(PosixFileSystem(), name.empty() ? dir_.path() : dir_ / name);
    EXPECT_OK(found);
    return found.ok() ? *found : FoundData();
  }
  void ExpectRefused(const char* what) {
    EXPECT_THAT(FindFormat(PosixFileSystem(), dir_.path()),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)));
  }

  TempDir dir_;
};

TEST_F(FindFormatTest, FilesThatMayBeReadAndNotListedAreNamedByBraces) {
  UnlistableFiles files;
  Write({"train-0.tar", "train-1.tar"});
  const auto found = FindFormat(files, dir_ / "train-{0..1}.tar");
  ASSERT_OK(found);
  EXPECT_THAT(found->train, ElementsAre(dir_ / "train-0.tar", dir_ / "train-1.tar"));
  for (const char* path : {"train-*.tar", "", "train-2.tar"}) {
    EXPECT_THAT(FindFormat(files, dir_ / path),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("403")));
  }
}

TEST_F(FindFormatTest, FindsImageFoldersBySplit) {
  Write({"train/cats/1.jpg", "val/cats/2.jpg", "test/cats/3.jpg", "README.md"});
  const FoundData found = Find();
  EXPECT_EQ(found.format, DataFormat::kImageFolder);
  EXPECT_THAT(found.train, ElementsAre(dir_ / "train"));
  EXPECT_THAT(found.validation, ElementsAre(dir_ / "val"));
  EXPECT_THAT(found.test, ElementsAre(dir_ / "test"));
  EXPECT_THAT(Find("train").unnamed, ElementsAre(dir_ / "train"));
}

TEST_F(FindFormatTest, TakesAFolderOfClassesOfWhichOneIsCalledTrain) {
  Write({"bus/1.jpg", "car/1.jpg", "train/1.jpg"});
  EXPECT_THAT(Find().unnamed, ElementsAre(dir_.path()));
}

TEST_F(FindFormatTest, FindsShardsBySplitOfTheirNames) {
  Write({"imagenet-train-000001.tar", "imagenet-train-000000.tar", "imagenet-val-000000.tar",
         "index.json", ".train-9.tar", "extra.tar"});
  const FoundData found = Find();
  EXPECT_EQ(found.format, DataFormat::kWebDataset);
  EXPECT_THAT(found.train,
              ElementsAre(dir_ / "imagenet-train-000000.tar", dir_ / "imagenet-train-000001.tar"));
  EXPECT_THAT(found.validation, ElementsAre(dir_ / "imagenet-val-000000.tar"));
  EXPECT_THAT(found.unnamed, ElementsAre(dir_ / "extra.tar"));
}

TEST_F(FindFormatTest, FindsTfRecordsUnderTheirNames) {
  Write({"train-00000-of-00002", "train-00001-of-00002", "validation-00000-of-00001"});
  EXPECT_EQ(Find().format, DataFormat::kTfRecord);
  EXPECT_EQ(Find().train.size(), 2u);
  EXPECT_EQ(Find().validation.size(), 1u);
  TempDir other;
  std::ofstream(other / "imagenet2012-test.tfrecord-00000-of-00001") << "x";
  ASSERT_OK_AND_ASSIGN(const FoundData tfds, FindFormat(PosixFileSystem(), other.path()));
  EXPECT_EQ(tfds.format, DataFormat::kTfRecord);
  EXPECT_EQ(tfds.test.size(), 1u);
}

TEST_F(FindFormatTest, FindsFilesInFoldersOfSplits) {
  Write({"train/0.rec", "train/0.idx", "valid/0.rec"});
  EXPECT_EQ(Find().format, DataFormat::kRecordIo);
  EXPECT_THAT(Find().train, ElementsAre(dir_ / "train/0.rec"));
  EXPECT_THAT(Find().validation, ElementsAre(dir_ / "valid/0.rec"));
}

TEST_F(FindFormatTest, FindsLmdbFolders) {
  Write({"ilsvrc12_train_lmdb/data.mdb", "ilsvrc12_train_lmdb/lock.mdb",
         "ilsvrc12_val_lmdb/data.mdb"});
  EXPECT_EQ(Find().format, DataFormat::kLmdb);
  EXPECT_THAT(Find().train, ElementsAre(dir_ / "ilsvrc12_train_lmdb/data.mdb"));
  EXPECT_THAT(Find().validation, ElementsAre(dir_ / "ilsvrc12_val_lmdb/data.mdb"));
  EXPECT_THAT(Find("ilsvrc12_train_lmdb").train,
              ElementsAre(dir_ / "ilsvrc12_train_lmdb/data.mdb"));
  EXPECT_THAT(Find("*_lmdb").train, ElementsAre(dir_ / "ilsvrc12_train_lmdb/data.mdb"));
}

TEST_F(FindFormatTest, TellsAFileByItsBytesWhereItsNameSaysNothing) {
  Write({"a"}, "PAR1....");
  Write({"b"}, "\x93NUMPY");
  Write({"c"}, testing::TarFile("1.jpg", "x"));
  Write({"d"}, testing::RecordIoBytes("x"));
  Write({"e"}, "?");
  EXPECT_EQ(Find("a").format, DataFormat::kParquet);
  EXPECT_EQ(Find("b").format, DataFormat::kNpy);
  EXPECT_EQ(Find("c").format, DataFormat::kWebDataset);
  EXPECT_EQ(Find("d").format, DataFormat::kRecordIo);
  EXPECT_THAT(FindFormat(PosixFileSystem(), dir_ / "e"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is no file that is known")));
  EXPECT_THAT(FindFormat(PosixFileSystem(), dir_ / "none"), StatusIs(absl::StatusCode::kNotFound));
}

// As `hf download --repo-type dataset --local-dir` and push_to_hub lay them out.
TEST_F(FindFormatTest, TakesAMirrorOfAHuggingFaceDataset) {
  Write({"README.md", ".gitattributes", "data/train-00000-of-00002.parquet",
         "data/train-00001-of-00002.parquet", "data/validation-00000-of-00001.parquet"});
  const FoundData found = Find();
  EXPECT_EQ(found.format, DataFormat::kParquet);
  EXPECT_THAT(found.train, ElementsAre(dir_ / "data/train-00000-of-00002.parquet",
                                       dir_ / "data/train-00001-of-00002.parquet"));
  EXPECT_THAT(found.validation, ElementsAre(dir_ / "data/validation-00000-of-00001.parquet"));
  EXPECT_TRUE(found.unnamed.empty());
}

TEST_F(FindFormatTest, TakesTheFilesThatADatasetCardNames) {
  Write({"plain/part-0.parquet", "plain/part-1.parquet", "plain/held.parquet", "other/x.parquet"});
  Write({"README.md"}, R"(---
language: en
configs:
- config_name: other
  data_files:
  - split: train
    path: other/*.parquet
- config_name: plain   # the usual one
  default: true
  data_files:
    - split: train
      path:
      - "plain/part-0.parquet"
      - 'plain/part-1.*'
    - split: valid
      path: [plain/held.parquet]
    - split: unsupervised
      path: nowhere/*
dataset_info:
  features:
  - name: image
    dtype: image
---
# A dataset
configs: of another kind
)");
  const FoundData found = Find();
  EXPECT_EQ(found.format, DataFormat::kParquet);
  EXPECT_THAT(found.train,
              ElementsAre(dir_ / "plain/part-0.parquet", dir_ / "plain/part-1.parquet"));
  EXPECT_THAT(found.validation, ElementsAre(dir_ / "plain/held.parquet"));
  EXPECT_TRUE(found.test.empty());
  EXPECT_TRUE(found.unnamed.empty());
}

TEST_F(FindFormatTest, ADatasetCardThatIsNotClearIsToldWithItsLine) {
  Write({"a/train.parquet", "b/train.parquet"});
  const auto card = [this](const std::string& configs) {
    Write({"README.md"}, "---\nconfigs:\n" + configs + "---\n");
  };
  card("- config_name: a\n  data_files: a/*\n- config_name: b\n  data_files: b/*\n");
  ExpectRefused("the configurations a, b, and none is the default");
  card("- config_name: default\n  data_files: b/*\n- config_name: a\n  data_files: a/*\n");
  EXPECT_THAT(Find().train, ElementsAre(dir_ / "b/train.parquet"));
  card("- data_files:\n  - split: train\n");
  ExpectRefused("README.md line 4: has no split and path");
  card("- data_files: [a/*\n");
  ExpectRefused("README.md line 4: end of sequence flow not found");
  card("- data_files: {split: train}\n");
  ExpectRefused("README.md line 3: has no path");
  card("- data_files: ../elsewhere/*\n");
  ExpectRefused("outside of its folder");
  card("- data_files: /elsewhere/*\n");
  ExpectRefused("outside of its folder");
  // Of files that are no shards: what lies in the folder tells.
  for (const char* pictures : {"'*.md'", "'**/*.jpg'"}) {
    card(absl::StrCat("- data_files: ", pictures, "\n"));
    EXPECT_EQ(Find().format, DataFormat::kImageFolder);
  }
}

TEST_F(FindFormatTest, ASlashAtTheEndChangesNoPath) {
  Write({"train-0.tar", "val-0.tar"});
  const auto found = FindFormat(PosixFileSystem(), absl::StrCat(dir_.path(), "//"));
  ASSERT_OK(found);
  EXPECT_THAT(found->train, ElementsAre(dir_ / "train-0.tar"));
}

TEST_F(FindFormatTest, TakesARepositoryInTheHubsCache) {
  namespace fs = std::filesystem;
  const fs::path repository = dir_ / "datasets--org--name";
  Write({"datasets--org--name/blobs/1234"}, "PAR1");
  const auto snapshot = [&](const std::string& revision) {
    fs::create_directories(repository / "snapshots" / revision / "data");
    fs::create_symlink("../../../blobs/1234",
                       repository / "snapshots" / revision / "data/train-00000-of-00001.parquet");
  };
  snapshot("aaaa");
  const std::string path = "datasets--org--name";
  EXPECT_THAT(Find(path).train,
              ElementsAre(dir_ / (path + "/snapshots/aaaa/data/train-00000-of-00001.parquet")));
  snapshot("bbbb");
  EXPECT_THAT(FindFormat(PosixFileSystem(), repository),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has 2 revisions")));
  Write({path + "/refs/main"}, "bbbb");
  EXPECT_THAT(Find(path).train,
              ElementsAre(dir_ / (path + "/snapshots/bbbb/data/train-00000-of-00001.parquet")));
  EXPECT_THAT(Find(path + "/snapshots/aaaa").train,
              ElementsAre(dir_ / (path + "/snapshots/aaaa/data/train-00000-of-00001.parquet")));
}

TEST_F(FindFormatTest, RefusesWhatIsNotClear) {
  ExpectRefused("holds no data that is known");
  Write({"1.jpg"});
  ExpectRefused("no folder for each class");
  Write({"a.tar"});
  EXPECT_EQ(Find().format, DataFormat::kWebDataset);
  Write({"b.rec"});
  ExpectRefused("want one format");
  std::filesystem::remove(dir_ / "b.rec");
  Write({"cats/1.jpg"});
  ExpectRefused("want one format");
  EXPECT_THAT(Find("*.tar").unnamed, ElementsAre(dir_ / "a.tar"));
}

TEST_F(FindFormatTest, RefusesTwoFoldersForOneSplit) {
  Write({"val/cats/1.jpg", "valid/cats/1.jpg", "train/cats/1.jpg"});
  ExpectRefused("second folder of one split");
}

TEST_F(FindFormatTest, WritesOutPatterns) {
  const auto expand = [](const std::string& pattern) {
    return ExpandFilePattern(PosixFileSystem(), pattern);
  };
  ASSERT_OK_AND_ASSIGN(auto paths, expand("s3://b/{train,extra}-{08..10}.tar"));
  EXPECT_THAT(paths,
              ElementsAre("s3://b/extra-08.tar", "s3://b/extra-09.tar", "s3://b/extra-10.tar",
                          "s3://b/train-08.tar", "s3://b/train-09.tar", "s3://b/train-10.tar"));
  ASSERT_OK_AND_ASSIGN(paths, expand("{9..10}"));
  EXPECT_THAT(paths, ElementsAre("10", "9"));
  for (const char* bad :
       {"{", "}", "{a", "a}", "{{a,b}}", "{}", "{1..}", "{2..1}", "{a..b}", "{-1..2}",
        "{1..99999999}", "{0..99999}{0..99999}", "{0..99999999999999999999}", "/a*/b.tar"}) {
    EXPECT_THAT(expand(bad), StatusIs(absl::StatusCode::kInvalidArgument)) << bad;
  }
  EXPECT_THAT(expand(std::string(5000, '{')), StatusIs(absl::StatusCode::kInvalidArgument));
  Write({"b.tar", "a.tar", ".c.tar", "d.tgz", "e[1].tar"});
  EXPECT_THAT(Find("[ab].tar").unnamed, ElementsAre(dir_ / "a.tar", dir_ / "b.tar"));
  EXPECT_THAT(Find("{a,b,?}.tar").unnamed, ElementsAre(dir_ / "a.tar", dir_ / "b.tar"));
  EXPECT_THAT(Find("e[1].tar").unnamed, ElementsAre(dir_ / "e[1].tar"));
  EXPECT_THAT(expand(dir_ / "*.rec"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("*.rec")));
}

}  // namespace
}  // namespace muster::worker
