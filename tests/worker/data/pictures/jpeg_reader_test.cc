#include "worker/data/pictures/jpeg/jpeg_reader.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tests/worker/data/pictures/decoded_crop.h"

namespace muster::testing {
namespace {

using ::muster::worker::CropBox;
using ::muster::worker::PictureDecoder;

struct JpegKind {
  const char* name;
  int channels;
  JpegOptions options;
};

const std::vector<JpegKind>& JpegKinds() {
  static const std::vector<JpegKind>* kinds = new std::vector<JpegKind>{
      {"4:2:0", 3, {}},
      {"4:2:2", 3, {.across = 2, .down = 1}},
      {"4:4:4", 3, {.across = 1, .down = 1}},
      {"4:4:0", 3, {.across = 1, .down = 2}},
      {"4:1:1", 3, {.across = 4, .down = 1}},
      {"4:1:0", 3, {.across = 4, .down = 2}},
      {"grey", 1, {.across = 1, .down = 1}},
      {"grey that says 2x2", 1, {}},
      {"progressive", 3, {.progressive = true}},
      {"progressive 4:4:4", 3, {.across = 1, .down = 1, .progressive = true}},
      {"arithmetic", 3, {.arithmetic = true}},
      {"restart markers", 3, {.restart_interval = 3}},
      {"restart markers that do not begin rows", 3, {.restart_interval = 5}},
      {"best quality", 3, {.quality = 100}},
      {"worst quality", 3, {.quality = 1}},
  };
  return *kinds;
}

TEST(JpegReader, IsBitEqualToAFullDecodeThatIsCropped) {
  PictureDecoder decoder;
  for (const JpegKind& kind : JpegKinds()) {
    const Pixels photo = MakePhoto(139, 101, kind.channels, 3);
    const std::string jpeg = EncodeJpeg(photo, kind.options);
    const Pixels full = DecodeJpeg(jpeg);
    for (uint64_t seed = 0; seed < 80; ++seed) {
      const CropBox crop = SomeCrop(139, 101, 10 * seed);
      // Larger than half of the crop, so that nothing is scaled.
      Ask ask{.width = crop.width / 2 + 1 + static_cast<int>(seed % 40),
              .height = crop.height / 2 + 1 + static_cast<int>(seed % 7),
              .channels = kind.channels,
              .flip = seed % 2 == 1};
      const auto got = DecodeCrop(decoder, jpeg, crop, ask);
      ASSERT_OK(got) << kind.name;
      ASSERT_EQ(*got, CropAndResize(full, crop, ask.width, ask.height, ask.flip))
          << kind.name << ", " << crop.width << "x" << crop.height << " at " << crop.x << ", "
          << crop.y;
    }
  }
}

TEST(JpegReader, ScalesWhereTheCropIsTwiceTheOutput) {
  PictureDecoder decoder;
  for (const JpegKind& kind : JpegKinds()) {
    const Pixels photo = MakePhoto(520, 410, kind.channels, 3, 8);
    JpegOptions options = kind.options;
    options.quality = 95;
    const std::string jpeg = EncodeJpeg(photo, options);
    const Pixels full = DecodeJpeg(jpeg);
    for (const CropBox& crop : {CropBox{0, 0, 520, 410}, CropBox{13, 27, 401, 333},
                                CropBox{119, 61, 400, 349}, CropBox{7, 9, 203, 171}}) {
      Ask ask{.width = 50, .height = 41, .channels = kind.channels};
      const auto got = DecodeCrop(decoder, jpeg, crop, ask);
      ASSERT_OK(got) << kind.name;
      const Difference difference = Compare(*got, CropAndResize(full, crop, 50, 41, false));
      // A cosine transform of fewer points is another filter than a triangle, by a level or two on
      // average; at the rims of hard edges by more.
      EXPECT_LE(difference.mean, 2.5) << kind.name;
      EXPECT_LE(difference.largest, 40) << kind.name;
    }
  }
}

TEST(JpegReader, ScalesTheSameWhateverTheCropBeginsWith) {
  // The crop's place in the scaled pixels is kept: moving a crop of a slope by a pixel moves the
  // slope, too.
  Pixels slope{512, 256, 1};
  for (int y = 0; y < 256; ++y) {
    for (int x = 0; x < 512; ++x) slope.values.push_back(static_cast<uint8_t>(x / 2));
  }
  const std::string jpeg = EncodeJpeg(slope, {.quality = 100, .across = 1, .down = 1});
  PictureDecoder decoder;
  for (int x = 100; x < 117; ++x) {
    const auto got =
        DecodeCrop(decoder, jpeg, {x, 20, 160, 160}, {.width = 20, .height = 20, .channels = 1});
    ASSERT_OK(got);
    // The outermost see one side of the filter.
    for (int i = 1; i < 19; ++i) {
      const double centre = x + (i + 0.5) * 8 - 0.5;
      EXPECT_NEAR((*got)[static_cast<size_t>(i)], centre / 2, 1.3) << x;
    }
  }
}

TEST(JpegReader, MakesColourOfGreyAndGreyOfColour) {
  PictureDecoder decoder;
  const CropBox crop{10, 5, 60, 50};
  const std::string grey = EncodeJpeg(MakePhoto(90, 70, 1, 2), {.across = 1, .down = 1});
  const auto one = DecodeCrop(decoder, grey, crop, {.channels = 1});
  const auto three = DecodeCrop(decoder, grey, crop, {.channels = 3});
  ASSERT_OK(one);
  ASSERT_OK(three);
  for (size_t i = 0; i < three->size(); ++i) ASSERT_EQ((*three)[i], (*one)[i / 3]);

  const std::string colour = EncodeJpeg(MakePhoto(90, 70, 3, 2), {});
  const auto rgb = DecodeCrop(decoder, colour, crop, {});
  const auto luma = DecodeCrop(decoder, colour, crop, {.channels = 1});
  ASSERT_OK(rgb);
  ASSERT_OK(luma);
  for (size_t i = 0; i < luma->size(); ++i) {
    const double wanted =
        0.299 * (*rgb)[3 * i] + 0.587 * (*rgb)[3 * i + 1] + 0.114 * (*rgb)[3 * i + 2];
    ASSERT_NEAR((*luma)[i], wanted, 3);
  }
}

TEST(JpegReader, TakesCmykAsAdobeStoresIt) {
  PictureDecoder decoder;
  for (const bool ycck : {false, true}) {
    for (const bool progressive : {false, true}) {
      const std::string jpeg =
          EncodeJpeg(MakePhoto(90, 70, 4, 2), {.progressive = progressive, .adobe_ycck = ycck});
      Pixels full = DecodeJpeg(jpeg);
      ASSERT_EQ(full.channels, 4);
      Pixels rgb{full.width, full.height, 3};
      for (size_t i = 0; i < full.values.size(); i += 4) {
        for (size_t c = 0; c < 3; ++c) {
          const double ink = (255.0 - full.values[i + c]) / 255.0;
          rgb.values.push_back(
              static_cast<uint8_t>(full.values[i + 3] - std::lround(ink * full.values[i + 3])));
        }
      }
      const CropBox crop{17, 5, 60, 50};
      const auto got = DecodeCrop(decoder, jpeg, crop, {.width = 40, .height = 33});
      ASSERT_OK(got);
      EXPECT_LE(Compare(*got, CropAndResize(rgb, crop, 40, 33, false)).largest, 1);
      const auto grey = DecodeCrop(decoder, jpeg, crop, {.width = 40, .height = 33, .channels = 1});
      ASSERT_OK(grey);
      for (size_t i = 0; i < grey->size(); ++i) {
        ASSERT_NEAR((*grey)[i],
                    0.299 * (*got)[3 * i] + 0.587 * (*got)[3 * i + 1] + 0.114 * (*got)[3 * i + 2],
                    1.6);
      }
    }
  }
}

// The upright picture of a stored one, pixel by pixel.
Pixels Upright(const Pixels& stored, int orientation) {
  const bool turned = orientation >= 5;
  Pixels upright{turned ? stored.height : stored.width, turned ? stored.width : stored.height,
                 stored.channels};
  const int w = stored.width - 1, h = stored.height - 1;
  for (int y = 0; y < upright.height; ++y) {
    for (int x = 0; x < upright.width; ++x) {
      // By the places of row 0 and column 0 in the table of EXIF.
      const std::pair<int, int> places[] = {{x, y}, {w - x, y}, {w - x, h - y}, {x, h - y},
                                            {y, x}, {y, h - x}, {w - y, h - x}, {w - y, x}};
      const auto [from_x, from_y] = places[orientation - 1];
      const uint8_t* pixel = stored.at(from_x, from_y);
      upright.values.insert(upright.values.end(), pixel, pixel + stored.channels);
    }
  }
  return upright;
}

TEST(JpegReader, TurnsAPictureUprightWhenAsked) {
  PictureDecoder decoder;
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::string jpeg = EncodeJpeg(MakePhoto(139, 101, 3, 3), {.orientation = orientation});
    const Pixels stored = DecodeJpeg(jpeg);
    const Pixels upright = Upright(stored, orientation);
    for (uint64_t seed = 0; seed < 12; ++seed) {
      const CropBox crop = SomeCrop(upright.width, upright.height, 10 * seed);
      Ask ask{.width = crop.width / 2 + 9,
              .height = crop.height / 2 + 3,
              .flip = seed % 2 == 1,
              .upright = true};
      const auto got = DecodeCrop(decoder, jpeg, crop, ask);
      ASSERT_OK(got);
      const auto wanted = CropAndResize(upright, crop, ask.width, ask.height, ask.flip);
      // Which side is resized first, and a weight that is rounded up, not down, make a level.
      EXPECT_LE(Compare(*got, wanted).largest, 1) << orientation;
    }
    const CropBox crop{20, 10, 70, 80};
    const auto as_stored = DecodeCrop(decoder, jpeg, crop, {.width = 60, .height = 60});
    ASSERT_OK(as_stored);
    EXPECT_EQ(*as_stored, CropAndResize(stored, crop, 60, 60, false));
  }
}

}  // namespace
}  // namespace muster::testing
