#include "worker/data/pictures/jpeg/restart_splice.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/data/pictures/decoded_crop.h"
#include "worker/data/pictures/jpeg/jpeg_layout.h"
#include "worker/data/pictures/jpeg/jpeg_repack.h"

namespace muster::testing {
namespace {

using ::muster::worker::CropBox;
using ::muster::worker::JpegLayout;
using ::muster::worker::PictureDecoder;
using ::muster::worker::ReadJpegLayout;
using ::muster::worker::RepackJpeg;
using ::muster::worker::RestartIntervalFor;
using ::muster::worker::RestartSplicer;

struct SplicedKind {
  const char* name;
  int channels;
  JpegOptions options;
};
const SplicedKind kSplicedKinds[] = {
    {"4:2:0", 3, {.restart_interval = 4}},
    {"4:2:0 of one MCU", 3, {.restart_interval = 1}},
    {"4:2:0 of a row", 3, {.restart_interval = 16}},
    {"4:2:2", 3, {.across = 2, .down = 1, .restart_interval = 4}},
    {"4:4:4", 3, {.across = 1, .down = 1, .restart_interval = 8}},
    {"4:4:0", 3, {.across = 1, .down = 2, .restart_interval = 8}},
    {"grey", 1, {.across = 1, .down = 1, .restart_interval = 8}},
    {"grey that says 2x2", 1, {.restart_interval = 8}},
};

// Neither side is a whole number of MCUs: 16 by 12 of 16 pixels.
constexpr int kWide = 251, kHigh = 187;

TEST(RestartSplice, IsBitEqualToTheWholePicture) {
  RestartSplicer splicer;
  PictureDecoder decoder;
  for (const SplicedKind& kind : kSplicedKinds) {
    const std::string jpeg = EncodeJpeg(MakePhoto(kWide, kHigh, kind.channels, 3), kind.options);
    const auto layout = ReadJpegLayout(jpeg);
    ASSERT_OK(layout);
    const Pixels full = DecodeJpeg(jpeg);
    int spliced = 0;
    for (uint64_t seed = 0; seed < 120; ++seed) {
      const CropBox crop = SomeCrop(kWide, kHigh, 10 * seed);
      const absl::string_view small = splicer.Splice(jpeg, *layout, crop);
      Ask ask{
          .width = crop.width / 2 + 1, .height = crop.height / 2 + 1, .channels = kind.channels};
      const auto got = DecodeCrop(decoder, jpeg, crop, ask);
      ASSERT_OK(got);
      ASSERT_EQ(*got, CropAndResize(full, crop, ask.width, ask.height, false)) << kind.name;
      if (small.empty()) continue;
      ++spliced;
      // Any decoder reads it without a warning, and 2 pixels off its inner rims it is the large
      // one.
      const Pixels part = DecodeJpeg(small);
      ASSERT_EQ(part.width, splicer.width());
      ASSERT_EQ(part.height, splicer.height());
      const int left = splicer.origin_x() == 0 ? 0 : 2, top = splicer.origin_y() == 0 ? 0 : 2;
      const int right = part.width - (splicer.origin_x() + part.width == kWide ? 0 : 2);
      const int bottom = part.height - (splicer.origin_y() + part.height == kHigh ? 0 : 2);
      ASSERT_LE(splicer.origin_x(), crop.x);
      ASSERT_LE(splicer.origin_y(), crop.y);
      ASSERT_GE(splicer.origin_x() + part.width, crop.x + crop.width);
      ASSERT_GE(splicer.origin_y() + part.height, crop.y + crop.height);
      for (int y = top; y < bottom; ++y) {
        const uint8_t* of_part = part.at(left, y);
        ASSERT_TRUE(std::equal(of_part, of_part + (right - left) * part.channels,
                               full.at(splicer.origin_x() + left, splicer.origin_y() + y)))
            << kind.name << " row " << y;
      }
    }
    EXPECT_GE(spliced, 60) << kind.name;
  }
}

TEST(RestartSplice, IsLeftAloneWhereItCannotBeOrIsNotWorthIt) {
  RestartSplicer splicer;
  const CropBox corner{100, 90, 40, 40};
  const auto splice = [&](const std::string& jpeg, const CropBox& crop) {
    const auto layout = ReadJpegLayout(jpeg);
    EXPECT_OK(layout);
    return std::string(splicer.Splice(jpeg, *layout, crop));
  };
  const Pixels photo = MakePhoto(kWide, kHigh, 3, 3);
  EXPECT_NE(splice(EncodeJpeg(photo, {.restart_interval = 4}), corner), "");
  EXPECT_EQ(splice(EncodeJpeg(photo, {.restart_interval = 4}), {0, 0, kWide, kHigh}), "");
  EXPECT_EQ(splice(EncodeJpeg(photo, {}), corner), "");
  EXPECT_EQ(splice(EncodeJpeg(photo, {.restart_interval = 5}), corner), "");
  EXPECT_EQ(splice(EncodeJpeg(photo, {.progressive = true, .restart_interval = 4}), corner), "");
  EXPECT_EQ(splice(EncodeJpeg(photo, {.arithmetic = true, .restart_interval = 4}), corner), "");
  EXPECT_EQ(splice(EncodeJpeg(MakePhoto(kWide, kHigh, 4, 3), {.restart_interval = 4}), corner), "");

  // Markers out of order, or one too few.
  std::string jpeg = EncodeJpeg(photo, {.restart_interval = 4});
  const size_t third = jpeg.find("\xFF\xD2");
  ASSERT_NE(third, std::string::npos);
  std::string renumbered = jpeg;
  renumbered[third + 1] = '\xD5';
  EXPECT_EQ(splice(renumbered, corner), "");
  EXPECT_EQ(splice(jpeg.substr(0, third + 2), corner), "");
  jpeg.erase(third, 2);
  EXPECT_EQ(splice(jpeg, corner), "");
}

TEST(RestartSplice, DoesNotCarryWhatOnlyDescribesThePicture) {
  RestartSplicer splicer;
  const std::string jpeg =
      EncodeJpeg(MakePhoto(kWide, kHigh, 3, 3), {.restart_interval = 4, .orientation = 6});
  const auto layout = ReadJpegLayout(jpeg);
  ASSERT_OK(layout);
  EXPECT_EQ(layout->orientation, 6);
  const absl::string_view small = splicer.Splice(jpeg, *layout, {100, 90, 40, 40});
  ASSERT_FALSE(small.empty());
  EXPECT_FALSE(absl::StrContains(small, "Exif"));
  EXPECT_TRUE(absl::StrContains(small, "JFIF"));
}

TEST(RestartInterval, IsTheSmallestDivisorThatIsWideEnough) {
  EXPECT_EQ(RestartIntervalFor(32, 16), 4);
  EXPECT_EQ(RestartIntervalFor(64, 16), 4);
  EXPECT_EQ(RestartIntervalFor(63, 8), 9);
  EXPECT_EQ(RestartIntervalFor(21, 16), 7);
  EXPECT_EQ(RestartIntervalFor(31, 16), 31);
  EXPECT_EQ(RestartIntervalFor(2, 16), 2);
  EXPECT_EQ(RestartIntervalFor(1, 16), 1);
}

TEST(RepackJpeg, KeepsEveryPixelAndTheMetadata) {
  for (const int channels : {1, 3, 4}) {
    for (const bool progressive : {false, true}) {
      for (const int sampling : {1, 2}) {
        const Pixels photo = MakePhoto(kWide, kHigh, channels, 3);
        const std::string jpeg = EncodeJpeg(
            photo,
            {.across = sampling, .down = sampling, .progressive = progressive, .orientation = 6});
        const auto packed = RepackJpeg(jpeg);
        ASSERT_OK(packed);
        EXPECT_EQ(DecodeJpeg(*packed).values, DecodeJpeg(jpeg).values);
        const auto layout = ReadJpegLayout(*packed);
        ASSERT_OK(layout);
        EXPECT_TRUE(layout->frame_marker == 0xC0 || layout->frame_marker == 0xC1);
        EXPECT_EQ(layout->orientation, 6);
        EXPECT_EQ(layout->restart_interval != 0, channels != 4);
        // Its own tables gain more than the markers cost.
        if (!progressive) {
          EXPECT_LT(packed->size(), jpeg.size());
        }
        const auto again = RepackJpeg(*packed);
        ASSERT_OK(again);
        EXPECT_EQ(*again, *packed);
      }
    }
  }
}

TEST(RepackJpeg, MakesWhatTheDecoderSplices) {
  PictureDecoder decoder;
  RestartSplicer splicer;
  for (const bool progressive : {false, true}) {
    const std::string jpeg =
        EncodeJpeg(MakePhoto(kWide, kHigh, 3, 3), {.progressive = progressive});
    const auto packed = RepackJpeg(jpeg);
    ASSERT_OK(packed);
    const auto layout = ReadJpegLayout(*packed);
    ASSERT_OK(layout);
    EXPECT_FALSE(splicer.Splice(*packed, *layout, {100, 90, 40, 40}).empty());
    for (uint64_t seed = 0; seed < 60; ++seed) {
      const CropBox crop = SomeCrop(kWide, kHigh, 10 * seed);
      // Scaled and not.
      Ask ask{.width = 1 + crop.width / (1 + static_cast<int>(seed % 9)),
              .height = 1 + crop.height / (1 + static_cast<int>(seed % 9)),
              .flip = seed % 2 == 0};
      const auto from_packed = DecodeCrop(decoder, *packed, crop, ask);
      ASSERT_OK(from_packed);
      const auto from_file = DecodeCrop(decoder, jpeg, crop, ask);
      ASSERT_OK(from_file);
      ASSERT_EQ(*from_packed, *from_file);
    }
  }
}

TEST(RepackJpeg, RefusesWhatIsDamagedOrTooLarge) {
  const std::string jpeg = EncodeJpeg(MakePhoto(kWide, kHigh, 3, 3), {});
  EXPECT_THAT(RepackJpeg(absl::string_view(jpeg).substr(0, jpeg.size() / 2)),
              StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("cut off")));
  EXPECT_THAT(RepackJpeg("no picture"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(RepackJpeg(jpeg, {.max_pixels = 1000}),
              StatusIs(absl::StatusCode::kResourceExhausted, ::testing::HasSubstr("251x187")));
  EXPECT_THAT(RepackJpeg(jpeg, {.max_decoder_bytes = 20000}),
              StatusIs(absl::StatusCode::kResourceExhausted, ::testing::HasSubstr("memory")));
}

}  // namespace
}  // namespace muster::testing
