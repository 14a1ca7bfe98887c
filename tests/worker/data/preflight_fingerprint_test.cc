// What `muster-data preflight` calls data by is what ranks call them by, when they compare what
// they see.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/object_store/cache/any_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/data/pictures/picture_makers.h"
#include "worker/data/images/picture_files.h"
#include "worker/data/index/data_indexes.h"
#include "worker/data/mixture.h"
#include "worker/data/subset.h"
#include "worker/data/text/token_rows.h"
#include "worker/data_tool/check/preflight.h"

namespace muster::worker {
namespace {

using ::muster::testing::EncodeJpeg;
using ::muster::testing::MakePhoto;
using ::muster::testing::TempDir;

class PreflightFingerprintTest : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("MUSTER_INDEX_DIR", (dir_ / "index").c_str(), 1); }

  void Put(const std::string& name, const std::string& bytes) {
    const std::string path = dir_ / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }
  static std::string Numbers(int count, int from) {
    std::string bytes;
    for (int i = 0; i < count; ++i) bytes += {static_cast<char>((from + i) % 100), 0};
    return bytes;
  }
  // Of the spec's data, as the tool has it.
  std::string Looked() {
    const auto report = Preflight(*files_, PosixFileSystem(), spec_, [](uint64_t) {});
    EXPECT_OK(report);
    return report.ok() ? report->fingerprint : "";
  }
  void ExpectSame(const absl::StatusOr<std::unique_ptr<Dataset>>& dataset) {
    ASSERT_OK(dataset);
    EXPECT_FALSE((*dataset)->fingerprint().empty());
    EXPECT_EQ(Looked(), (*dataset)->fingerprint());
  }

  TempDir dir_;
  const std::shared_ptr<AnyFileSystem> files_ = std::make_shared<AnyFileSystem>(PosixFileSystem());
  trainer_spec::JobSpec spec_;
};

TEST_F(PreflightFingerprintTest, OfPictures) {
  for (int i = 0; i < 40; ++i) {
    Put(absl::StrCat("photos/class-", i % 2, "/", i, ".jpg"),
        EncodeJpeg(MakePhoto(20, 20, 3, static_cast<uint64_t>(i)), {}));
  }
  trainer_spec::Images images;
  images.path = dir_ / "photos";
  images.size = 24;
  images.channels = 1;
  images.upright = true;
  spec_.train.data.images = images;
  spec_.train.data.subset = 5;
  IndexOptions options;
  options.path = images.path;
  PictureFilesConfig config;
  config.size = 24;
  config.channels = 1;
  config.pixels = {{0.5f}, {0.5f}};
  config.decoding = {.center_crop = 0.875, .upright = true};
  for (const bool in_windows : {false, true}) {
    auto indexes = OpenOrMakeIndexes(*files_, PosixFileSystem(), options);
    ASSERT_OK(indexes);
    config.storage_order = in_windows;
    spec_.train.data.shuffle_window = in_windows ? 8 : 0;
    auto dataset = PictureFiles::Create(files_, std::move(indexes->splits), config);
    ASSERT_OK(dataset);
    ExpectSame(KeepSubset(*std::move(dataset), Split::kTrain, 5));
  }
}

TEST_F(PreflightFingerprintTest, OfTables) {
  std::string rows = "a,b,y\n";
  for (int i = 0; i < 60; ++i) absl::StrAppend(&rows, i, ",", i * i, ",", i % 3, "\n");
  Put("table/train.csv", rows);
  Put("table/test.csv", "a,b,y\n1,2,0\n");
  trainer_spec::Csv csv;
  csv.path = dir_ / "table";
  csv.target = "y";
  csv.normalize = true;
  spec_.train.data.csv = csv;
  ExpectSame(ReadCsv(*files_, {csv.path, csv.target, {}, false, true}));
}

TEST_F(PreflightFingerprintTest, OfText) {
  Put("text/a.txt", std::string(900, 'a'));
  Put("text/below/b.txt", std::string(800, 'b'));
  trainer_spec::Text text;
  text.path = dir_ / "text";
  text.context = 16;
  spec_.train.data.text = text;
  ExpectSame(ReadText(*files_, {text.path, text.context}));
}

TEST_F(PreflightFingerprintTest, OfTokensAndTheirShards) {
  for (const char* name : {"whole/train.bin", "whole/val.bin", "whole/test.bin",
                           "shards/x_train_0.bin", "shards/x_train_1.bin", "shards/x_val_0.bin"})
    Put(name, Numbers(300, static_cast<int>(std::string(name).size())));
  for (const char* folder : {"whole", "shards"}) {
    trainer_spec::Tokens tokens;
    tokens.path = dir_ / folder;
    tokens.context = 8;
    tokens.vocabulary = 200;
    spec_.train.data.tokens = tokens;
    ExpectSame(ReadTokens(files_, {tokens.path, tokens.context, tokens.vocabulary}));
  }
}

TEST_F(PreflightFingerprintTest, OfAMixture) {
  std::vector<Mixture::Source> sources;
  trainer_spec::Mixture mixture;
  for (const char* name : {"one", "other"}) {
    Put(absl::StrCat(name, "/a.txt"), std::string(2000, name[1]));
    trainer_spec::MixtureSource source;
    source.text.emplace();
    source.text->path = dir_ / name;
    source.text->context = 16;
    auto rows = ReadText(*files_, {source.text->path, source.text->context});
    ASSERT_OK(rows);
    sources.push_back({name, *std::move(rows)});
    mixture.sources.push_back(source);
  }
  spec_.train.data.mixture = mixture;
  ExpectSame(Mixture::Create(std::move(sources)));
}

}  // namespace
}  // namespace muster::worker
