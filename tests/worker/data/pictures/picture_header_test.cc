#include "worker/data/pictures/picture_header.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tests/worker/data/pictures/picture_makers.h"
#include "worker/data/pictures/exif_orientation.h"

namespace muster::testing {
namespace {

using ::muster::worker::ExifOrientation;
using ::muster::worker::PictureHeader;
using ::muster::worker::PictureKind;
using ::muster::worker::ReadPictureHeader;
using ::testing::HasSubstr;

std::string Jpeg(int channels, const JpegOptions& options) {
  return EncodeJpeg(MakePhoto(37, 21, channels, 1), options);
}

TEST(ReadPictureHeader, TellsTheKindByTheContent) {
  auto header = ReadPictureHeader(Jpeg(3, {.orientation = 6}));
  ASSERT_OK(header);
  EXPECT_EQ(header->kind, PictureKind::kJpeg);
  EXPECT_EQ(header->width, 37);
  EXPECT_EQ(header->height, 21);
  EXPECT_EQ(header->channels, 3);
  EXPECT_FALSE(header->progressive);
  EXPECT_EQ(header->orientation, 6);
  EXPECT_EQ(UprightSize(*header).width, 21);
  EXPECT_EQ(UprightSize(*header).height, 37);

  header = ReadPictureHeader(Jpeg(1, {.across = 1, .down = 1, .progressive = true}));
  ASSERT_OK(header);
  EXPECT_EQ(header->channels, 1);
  EXPECT_TRUE(header->progressive);
  EXPECT_EQ(header->orientation, 1);
  EXPECT_EQ(UprightSize(*header).width, 37);
  EXPECT_EQ(ReadPictureHeader(Jpeg(4, {}))->channels, 4);

  const std::vector<uint16_t> samples(37 * 21 * 4, 200);
  header =
      ReadPictureHeader(EncodePng(37, 21, samples, {}, {.colour_type = 6, .interlaced = true}));
  ASSERT_OK(header);
  EXPECT_EQ(header->kind, PictureKind::kPng);
  EXPECT_EQ(header->width, 37);
  EXPECT_EQ(header->channels, 4);
  EXPECT_TRUE(header->progressive);

  header = ReadPictureHeader(EncodeWebp(MakePhoto(37, 21, 3, 1), 80, false));
  ASSERT_OK(header);
  EXPECT_EQ(header->kind, PictureKind::kWebp);
  EXPECT_EQ(header->width, 37);
  EXPECT_EQ(header->height, 21);
  EXPECT_EQ(header->channels, 3);
}

TEST(ReadPictureHeader, NeedsOnlyTheBeginning) {
  for (const std::string& file :
       {Jpeg(3, {.orientation = 3}), EncodeWebp(MakePhoto(64, 64, 3, 1), 80, false),
        EncodePng(64, 64, std::vector<uint16_t>(64 * 64 * 3, 7), {}, {})}) {
    const auto whole = ReadPictureHeader(file);
    ASSERT_OK(whole);
    bool known = false;
    for (size_t size = 0; size <= file.size(); ++size) {
      const auto part = ReadPictureHeader(absl::string_view(file).substr(0, size));
      if (part.ok()) {
        known = true;
        EXPECT_EQ(part->width, whole->width);
        EXPECT_EQ(part->height, whole->height);
      } else {
        EXPECT_FALSE(known) << size;
        EXPECT_THAT(part, StatusIs(absl::StatusCode::kInvalidArgument));
      }
    }
  }
}

TEST(ReadPictureHeader, RefusesWhatIsNoPictureThatIsDecoded) {
  EXPECT_THAT(ReadPictureHeader(""), StatusIs(absl::StatusCode::kInvalidArgument, "is empty"));
  EXPECT_THAT(ReadPictureHeader("GIF89a"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no JPEG, PNG or WebP")));
  std::string jpeg = Jpeg(3, {});
  const size_t frame = jpeg.find("\xFF\xC0");
  ASSERT_NE(frame, std::string::npos);
  std::string other = jpeg;
  other[frame + 1] = '\xC3';
  EXPECT_THAT(ReadPictureHeader(other),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("SOF3")));
  other = jpeg;
  other[frame + 4] = 12;
  EXPECT_THAT(ReadPictureHeader(other),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("12 bits")));
  other = jpeg;
  other[frame + 5] = other[frame + 6] = 0;
  EXPECT_THAT(ReadPictureHeader(other),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no pixels")));
  other = jpeg;
  other[frame + 11] = 0x52;
  EXPECT_THAT(ReadPictureHeader(other),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sampling")));
}

TEST(ExifOrientation, IsReadInBothByteOrdersAndIgnoredWhenDamaged) {
  for (int orientation = 0; orientation <= 9; ++orientation) {
    const int wanted = orientation >= 1 && orientation <= 8 ? orientation : 1;
    for (const bool little : {false, true}) {
      const std::string tiff = ExifOf(orientation, little);
      EXPECT_EQ(ExifOrientation(tiff), wanted);
      for (size_t size = 0; size < 22; ++size)
        EXPECT_EQ(ExifOrientation(absl::string_view(tiff).substr(0, size)), 1);
    }
  }
  std::string far = ExifOf(6, true);
  far[4] = far[5] = far[6] = far[7] = '\xFF';
  EXPECT_EQ(ExifOrientation(far), 1);
  std::string many("II*\0\x08\0\0\0\xFF\xFF", 10);
  many.resize(10 + 65535 * 12);
  EXPECT_EQ(ExifOrientation(many), 1);
}

}  // namespace
}  // namespace muster::testing
