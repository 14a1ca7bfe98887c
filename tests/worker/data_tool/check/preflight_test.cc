#include "worker/data_tool/check/preflight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "tests/support/status_matchers.h"
#include "tests/worker/data_tool/tool_data.h"

namespace muster::worker {
namespace {

using ::absl::StatusCode;
using ::muster::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PreflightTest : public ToolDataTest {
 protected:
  static trainer_spec::JobSpec OfPictures(const std::string& path) {
    trainer_spec::JobSpec spec;
    trainer_spec::Images images;
    images.path = path;
    images.size = 32;
    images.channels = 3;
    spec.train.data.images = images;
    return spec;
  }
  static trainer_spec::JobSpec OfTable(const std::string& path) {
    trainer_spec::JobSpec spec;
    trainer_spec::Csv csv;
    csv.path = path;
    csv.target = "y";
    spec.train.data.csv = csv;
    return spec;
  }
  absl::StatusOr<PreflightReport> Look(const trainer_spec::JobSpec& spec) {
    return Preflight(data_, fs_, spec, [](uint64_t) {});
  }
  std::string FaultOf(const trainer_spec::JobSpec& spec) {
    const absl::StatusOr<PreflightReport> report = Look(spec);
    if (report.ok()) return "none";
    return std::string(PreflightFault(data_, spec, report.status()));
  }
};

TEST_F(PreflightTest, WholePicturesAreFine) {
  const auto report = Look(OfPictures(MakeTars(60, 20)));
  ASSERT_OK(report);
  EXPECT_THAT(report->samples, ElementsAre(40, 20, 20));
  EXPECT_EQ(report->tried, 2 * kPreflightSamples) << "the validation set is the test set";
  EXPECT_EQ(report->broken, 0u);
  EXPECT_THAT(report->fingerprint, HasSubstr("pictures:3x32x32:stored:"));
}

// That takes as long as the look did.
TEST_F(PreflightTest, AStorageThatIsAwayIsNotAskedAgain) {
  int calls = 0;
  AnyFileSystem data(fs_, {.before_call = [&calls] {
                       ++calls;
                       return absl::OkStatus();
                     }});
  const trainer_spec::JobSpec spec = OfPictures(dir_ / "nowhere");
  EXPECT_EQ(PreflightFault(data, spec, absl::DeadlineExceededError("away")), "unavailable");
  EXPECT_EQ(PreflightFault(data, spec, absl::PermissionDeniedError("no")), "forbidden");
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(PreflightFault(data, spec, absl::NotFoundError("none")), "missing");
  EXPECT_GT(calls, 0);
}

TEST_F(PreflightTest, AFolderThatIsNotThereOrEmptyIsMissing) {
  EXPECT_EQ(FaultOf(OfPictures(dir_ / "nowhere")), "missing");
  std::filesystem::create_directories(dir_ / "mount");
  EXPECT_EQ(FaultOf(OfPictures(dir_ / "mount")), "missing");
}

TEST_F(PreflightTest, AFolderWithoutPicturesIsBroken) {
  PutFile(dir_ / "notes/a/read.txt", "no picture");
  EXPECT_EQ(FaultOf(OfPictures(dir_ / "notes")), "broken");
}

TEST_F(PreflightTest, ABrokenPictureThatIsDrawnIsNamed) {
  const std::string folder = MakeFolder(9);
  for (int i = 0; i < 9; ++i)
    PutFile(folder + "/" + KeyName(i) + ".jpg", PictureBytes(3).substr(0, 300));
  const trainer_spec::JobSpec spec = OfPictures(folder);
  EXPECT_THAT(Look(spec), StatusIs(StatusCode::kInvalidArgument, HasSubstr("sample class-")));
  EXPECT_EQ(FaultOf(spec), "broken");
  // A job that puts up with some is not held up by them.
  trainer_spec::JobSpec lenient = spec;
  lenient.train.data.images->broken_samples = 20;
  const auto report = Look(lenient);
  ASSERT_OK(report);
  EXPECT_GT(report->broken, 0u);
}

// Which no worker reads, however often it looks.
TEST_F(PreflightTest, APictureOfAKindThatIsNotDecodedIsBroken) {
  std::string picture = PictureBytes(1);
  const size_t frame = picture.find("\xFF\xC0");
  ASSERT_NE(frame, std::string::npos);
  picture[frame + 4] = 12;  // bits of a sample
  const std::string folder = MakeFolder(9);
  for (int i = 0; i < 9; ++i) PutFile(folder + "/" + KeyName(i) + ".jpg", picture);
  EXPECT_THAT(Look(OfPictures(folder)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("12 bits")));
  EXPECT_EQ(FaultOf(OfPictures(folder)), "broken");
  PutFile(dir_ / "arrays/train.npy", "\x93NUMPY");
  EXPECT_EQ(FaultOf(OfPictures(dir_ / "arrays")), "broken");
}

TEST_F(PreflightTest, ALabelBeyondTheClassesIsBroken) {
  trainer_spec::JobSpec spec = OfPictures(MakeFolder(30));
  spec.train.data.images->classes = 2;
  EXPECT_THAT(Look(spec), StatusIs(StatusCode::kInvalidArgument, HasSubstr("has the class 2")));
  spec.train.data.images->classes = 3;
  EXPECT_OK(Look(spec));
}

// Else the model of the first validation would be the best one.
TEST_F(PreflightTest, ASetWithoutPicturesIsBroken) {
  MakeTars(12, 2);
  for (const char* set : {"val", "test"}) {
    const std::string tar = absl::StrCat(dir_.path(), "/tars/", set, "-0.tar");
    PutFile(tar, testing::TarFile("a.tif", "no picture that is read") + testing::TarEnd());
    const auto spec = OfPictures(dir_ / "tars");
    EXPECT_THAT(Look(spec), StatusIs(StatusCode::kInvalidArgument, HasSubstr("set has no pict")));
    EXPECT_EQ(FaultOf(spec), "broken");
    MakeTars(12, 2);
  }
}

TEST_F(PreflightTest, WhatTheRanksTrainOnIsInTheFingerprint) {
  trainer_spec::JobSpec spec = OfPictures(MakeTars(60, 20));
  const std::string all = Look(spec)->fingerprint;
  spec.train.data.subset = 10;
  const auto part = Look(spec);
  ASSERT_OK(part);
  EXPECT_EQ(part->fingerprint, all + ":train=10");
  EXPECT_EQ(part->samples[0], 10u);
}

TEST_F(PreflightTest, TablesAreReadWhole) {
  PutFile(dir_ / "table/train.csv", "a,y\n1,0\n2,1\n");
  EXPECT_EQ(FaultOf(OfTable(dir_ / "table")), "none");
  PutFile(dir_ / "table/test.csv", "a,y\n1,2\n");
  EXPECT_THAT(Look(OfTable(dir_ / "table")),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("has the class 2")));
  PutFile(dir_ / "table/test.csv", "a,z\n1,0\n");
  EXPECT_EQ(FaultOf(OfTable(dir_ / "table")), "broken") << "a column is missing, not the table";
  EXPECT_EQ(FaultOf(OfTable(dir_ / "no-table")), "missing");
}

TEST_F(PreflightTest, TokensBeyondTheVocabularyAreFoundWhereTheyAreDrawn) {
  std::string tokens;
  for (int i = 0; i < 100; ++i) tokens += {static_cast<char>(i), 0};
  PutFile(dir_ / "tokens/train.bin", tokens);
  PutFile(dir_ / "tokens/val.bin", tokens);
  trainer_spec::JobSpec spec;
  trainer_spec::Tokens source;
  source.path = dir_ / "tokens";
  source.context = 9;
  source.vocabulary = 100;
  spec.train.data.tokens = source;
  const auto report = Look(spec);
  ASSERT_OK(report);
  EXPECT_THAT(report->samples, ElementsAre(11, 11, 11));
  spec.train.data.tokens->vocabulary = 50;
  EXPECT_EQ(FaultOf(spec), "broken");
  spec.train.data.tokens->path = dir_ / "elsewhere";
  EXPECT_EQ(FaultOf(spec), "missing");
}

TEST_F(PreflightTest, ArraysWithoutTheirOtherHalfAreBroken) {
  PutFile(dir_ / "arrays/train_inputs.npy", "no array");
  trainer_spec::JobSpec spec;
  trainer_spec::Numpy source;
  source.path = dir_ / "arrays";
  spec.train.data.numpy = source;
  EXPECT_EQ(FaultOf(spec), "broken");
}

TEST_F(PreflightTest, AStorageThatDoesNotAnswerIsUnavailable) {
  const trainer_spec::JobSpec spec = OfPictures("/photos");
  EXPECT_EQ(PreflightFault(data_, spec, absl::UnavailableError("")), "unavailable");
  EXPECT_EQ(PreflightFault(data_, spec, absl::PermissionDeniedError("")), "forbidden");
  EXPECT_EQ(PreflightFault(data_, spec, absl::InternalError("")), "other");
}

TEST_F(PreflightTest, DataThatAreMadeUpAreNotLookedAt) {
  const auto spec = std::make_unique<trainer_spec::JobSpec>();
  spec->train.data.synthetic.emplace();
  EXPECT_THAT(Look(*spec), StatusIs(StatusCode::kUnimplemented));
}

}  // namespace
}  // namespace muster::worker
