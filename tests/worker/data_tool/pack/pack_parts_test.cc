// The parts of pack that are rules or files of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/faulty_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/data/formats/support/sample_list.h"
#include "tests/worker/data_tool/tool_data.h"
#include "worker/data/formats/web_dataset.h"
#include "worker/data_tool/pack/class_split.h"
#include "worker/data_tool/pack/link_tree.h"
#include "worker/data_tool/pack/member_key.h"
#include "worker/data_tool/pack/packed_picture.h"
#include "worker/data_tool/pack/tar_writer.h"

namespace muster::worker {
namespace {

using ::absl::StatusCode;
using ::muster::testing::DecodeJpeg;
using ::muster::testing::EncodeJpeg;
using ::muster::testing::FaultyFileSystem;
using ::muster::testing::MakePhoto;
using ::muster::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using PackPartsTest = ToolDataTest;

TEST_F(PackPartsTest, ATarHasItsMembersUnderNamesOfAnyLength) {
  const std::string path = dir_ / "a.tar", part = dir_ / "a.part";
  std::vector<std::string> names = {"a/1.jpg", std::string(95, 'b') + ".jpg",
                                    std::string(96, 'c') + ".jpg", std::string(97, 'd') + ".jpg",
                                    std::string(300, 'e') + "/caf\xc3\xa9.jpg"};
  ASSERT_OK_AND_ASSIGN(auto tar, TarWriter::Create(fs_, path, part));
  for (size_t i = 0; i < names.size(); ++i)
    ASSERT_OK(tar->Add(names[i], std::string(i * 300, static_cast<char>('0' + i))));
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_OK(tar->Finish());
  EXPECT_FALSE(std::filesystem::exists(part));

  SampleList list;
  ASSERT_OK(IndexWebDataset(fs_, path, {}, list));
  ASSERT_EQ(list.samples().size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(list.samples()[i].key, names[i].substr(0, names[i].size() - 4));
    EXPECT_EQ(list.samples()[i].size, i * 300);
  }
  // GNU tar agrees.
  EXPECT_EQ(::system(absl::StrCat("tar -tf ", path, " >", dir_ / "list", " 2>&1").c_str()), 0);
  EXPECT_THAT(FileText(dir_ / "list"), HasSubstr(std::string(97, 'd')));
}

TEST_F(PackPartsTest, ATarThatIsNotFinishedLeavesNothing) {
  const std::string path = dir_ / "a.tar", part = dir_ / "a.part";
  PutFile(part, "what a killed writer left");
  {
    ASSERT_OK_AND_ASSIGN(auto tar, TarWriter::Create(fs_, path, part));
    ASSERT_OK(tar->Add("a.jpg", "x"));
  }
  EXPECT_FALSE(std::filesystem::exists(part));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(MemberKeyTest, ADotOfTheLastPartBecomesADash) {
  EXPECT_EQ(*MemberKey("n01/img_7"), "n01/img_7");
  EXPECT_EQ(*MemberKey("v1.2/img_7"), "v1.2/img_7");
  EXPECT_EQ(*MemberKey("train.rec:00000012"), "train-rec:00000012");
  EXPECT_EQ(*MemberKey("a/.hidden"), "a/-hidden");
  for (const std::string& key :
       {std::string(""), std::string("a/"), std::string("./a"), std::string("a\0b", 3)}) {
    EXPECT_THAT(MemberKey(key), StatusIs(StatusCode::kInvalidArgument, HasSubstr("in a tar")));
  }
}

std::vector<HashedSample> Samples(int count, int classes) {
  std::vector<HashedSample> samples;
  for (int i = 0; i < count; ++i)
    samples.push_back({i % classes, KeyHash(absl::StrCat("key ", i), 0)});
  return samples;
}

TEST(ClassSplitTest, EachClassGivesItsShare) {
  const std::vector<HashedSample> samples = Samples(300, 3);
  const std::vector<uint8_t> parts = SplitByClass(samples, 0.1, 0.2);
  for (int64_t label = 0; label < 3; ++label) {
    std::array<int, 3> counts = {};
    for (size_t i = 0; i < parts.size(); ++i)
      if (samples[i].label == label) ++counts[parts[i]];
    EXPECT_EQ(counts, (std::array<int, 3>{70, 10, 20}));
  }
}

TEST(ClassSplitTest, DependsOnKeysNotOnTheirOrder) {
  std::vector<HashedSample> samples = Samples(100, 4);
  const std::vector<uint8_t> parts = SplitByClass(samples, 0.25, 0);
  std::reverse(samples.begin(), samples.end());
  std::vector<uint8_t> reversed = SplitByClass(samples, 0.25, 0);
  std::reverse(reversed.begin(), reversed.end());
  EXPECT_EQ(parts, reversed);
  EXPECT_NE(KeyHash("a", 0), KeyHash("a", 1));
  EXPECT_THAT(SplitByClass({}, 0.5, 0.5), IsEmpty());
}

TEST(PicturePackerTest, RepacksWithoutLossOrKeeps) {
  PicturePacker packer(/*shorter_side=*/0, /*repack=*/true);
  const std::string jpeg = EncodeJpeg(MakePhoto(200, 150, 3, 1), {.progressive = true});
  const PackedPicture packed = packer.Pack(jpeg);
  EXPECT_EQ(packed.packing, Packing::kRepacked);
  EXPECT_EQ(packed.extension, "jpg");
  EXPECT_NE(packed.bytes, jpeg);
  EXPECT_EQ(DecodeJpeg(packed.bytes).values, DecodeJpeg(jpeg).values);

  const PackedPicture cut = packer.Pack(jpeg.substr(0, jpeg.size() / 2));
  EXPECT_EQ(cut.packing, Packing::kNotRepacked);
  EXPECT_EQ(cut.bytes, jpeg.substr(0, jpeg.size() / 2));
  const PackedPicture none = packer.Pack("no picture");
  EXPECT_EQ(none.packing, Packing::kNotRepacked);
  EXPECT_EQ(none.extension, "jpg");
  EXPECT_EQ(packer.Pack("").bytes, "");

  PicturePacker keeper(0, /*repack=*/false);
  EXPECT_EQ(keeper.Pack(jpeg).bytes, jpeg);
  EXPECT_EQ(keeper.Pack(jpeg).packing, Packing::kKept);
}

TEST(PicturePackerTest, ShrinksToTheShorterSideAndKeepsHowItWasHeld) {
  PicturePacker packer(/*shorter_side=*/64, /*repack=*/true);
  const PackedPicture packed =
      packer.Pack(EncodeJpeg(MakePhoto(300, 150, 3, 1), {.orientation = 6}));
  EXPECT_EQ(packed.packing, Packing::kShrunk);
  const auto header = ReadPictureHeader(packed.bytes);
  ASSERT_OK(header);
  EXPECT_EQ(header->width, 128);
  EXPECT_EQ(header->height, 64);
  EXPECT_EQ(header->orientation, 6);
  const auto grey = ReadPictureHeader(packer.Pack(EncodeJpeg(MakePhoto(70, 300, 1, 1))).bytes);
  ASSERT_OK(grey);
  EXPECT_EQ(grey->channels, 1);
  EXPECT_EQ(grey->width, 64);
  // One that is small enough is not touched but for its repacking.
  EXPECT_EQ(packer.Pack(EncodeJpeg(MakePhoto(300, 64, 3, 1))).packing, Packing::kRepacked);
}

TEST_F(PackPartsTest, ATreeOfLinksHoldsOutAShareOfEachClass) {
  const std::string folder = MakeFolder(60);
  SplitRequest request{.path = folder, .out = dir_ / "split", .validation = 0.2, .test = 0.1};
  ASSERT_OK_AND_ASSIGN(const auto counts, SplitFolder(data_, fs_, request));
  EXPECT_EQ(counts, (std::array<uint64_t, 3>{42, 12, 6}));
  ASSERT_OK_AND_ASSIGN(const DataIndexes indexes, OpenAll(request.out));
  EXPECT_EQ(IndexOf(indexes, Split::kTrain).size(), 42u);
  EXPECT_EQ(IndexOf(indexes, Split::kValidation).size(), 12u);
  EXPECT_EQ(IndexOf(indexes, Split::kTest).size(), 6u);
  EXPECT_EQ(IndexOf(indexes, Split::kTest).class_names().size(), 3u);

  EXPECT_THAT(SplitFolder(data_, fs_, request), StatusIs(StatusCode::kAlreadyExists));
  request.path = request.out;
  request.out = dir_ / "again";
  EXPECT_THAT(SplitFolder(data_, fs_, request),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("already")));
  request.path = MakeTars(9, 0);
  EXPECT_THAT(SplitFolder(data_, fs_, request),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("pack --validation 0.2")));
}

}  // namespace
}  // namespace muster::worker
