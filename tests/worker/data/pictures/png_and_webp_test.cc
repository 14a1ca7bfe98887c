#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tests/worker/data/pictures/decoded_crop.h"

namespace muster::testing {
namespace {

using ::muster::worker::CropBox;
using ::muster::worker::PictureDecoder;

constexpr int kPngWide = 61, kPngHigh = 43;

struct PngKind {
  const char* name;
  int channels;  // samples a pixel in the file
  PngOptions options;
};
const PngKind kPngKinds[] = {
    {"grey of 1 bit", 1, {.colour_type = 0, .bit_depth = 1}},
    {"grey of 2 bits", 1, {.colour_type = 0, .bit_depth = 2}},
    {"grey of 4 bits", 1, {.colour_type = 0, .bit_depth = 4}},
    {"grey", 1, {.colour_type = 0}},
    {"grey with a transparent level", 1, {.colour_type = 0, .transparency = true}},
    {"grey of 16 bits", 1, {.colour_type = 0, .bit_depth = 16}},
    {"colour", 3, {}},
    {"colour with a transparent one", 3, {.transparency = true}},
    {"colour of 16 bits", 3, {.bit_depth = 16}},
    {"palette of 1 bit", 1, {.colour_type = 3, .bit_depth = 1}},
    {"palette of 4 bits", 1, {.colour_type = 3, .bit_depth = 4}},
    {"palette", 1, {.colour_type = 3}},
    {"palette with transparent colours", 1, {.colour_type = 3, .transparency = true}},
    {"grey and alpha", 2, {.colour_type = 4}},
    {"grey and alpha of 16 bits", 2, {.colour_type = 4, .bit_depth = 16}},
    {"colour and alpha", 4, {.colour_type = 6}},
    {"colour and alpha of 16 bits", 4, {.colour_type = 6, .bit_depth = 16}},
};

// What the samples mean in 8 bits: alpha is dropped, of 16 bits the upper 8 are taken.
Pixels Meaning(const PngKind& kind, const std::vector<uint16_t>& samples,
               const std::vector<uint8_t>& palette) {
  const bool grey = kind.options.colour_type == 0 || kind.options.colour_type == 4;
  Pixels pixels{kPngWide, kPngHigh, grey ? 1 : 3};
  const int depth = kind.options.bit_depth;
  for (size_t at = 0; at < samples.size(); at += static_cast<size_t>(kind.channels)) {
    if (kind.options.colour_type == 3) {
      for (size_t c = 0; c < 3; ++c) pixels.values.push_back(palette[3 * samples[at] + c]);
      continue;
    }
    for (size_t c = 0; c < (grey ? 1 : 3); ++c) {
      const int value = samples[at + c];
      pixels.values.push_back(
          static_cast<uint8_t>(depth == 16 ? value >> 8 : value * 255 / ((1 << depth) - 1)));
    }
  }
  return pixels;
}

TEST(PngReader, ReadsEveryKind) {
  PictureDecoder decoder;
  for (const PngKind& kind : kPngKinds) {
    const uint32_t levels = 1u << kind.options.bit_depth;
    std::vector<uint8_t> palette;
    for (uint32_t i = 0; i < 3 * std::min(levels, 256u); ++i)
      palette.push_back(static_cast<uint8_t>(SplitMix64(i)));
    std::vector<uint16_t> samples;
    for (int i = 0; i < kPngWide * kPngHigh * kind.channels; ++i)
      samples.push_back(static_cast<uint16_t>(SplitMix64(static_cast<uint64_t>(i)) % levels));
    const Pixels meaning = Meaning(kind, samples, palette);
    for (const bool interlaced : {false, true}) {
      PngOptions options = kind.options;
      options.interlaced = interlaced;
      const std::string png = EncodePng(kPngWide, kPngHigh, samples, palette, options);
      for (uint64_t seed = 0; seed < 10; ++seed) {
        const CropBox crop = SomeCrop(kPngWide, kPngHigh, 10 * seed);
        const bool flip = seed % 2 == 1;
        const auto got =
            DecodeCrop(decoder, png, crop, {.channels = meaning.channels, .flip = flip});
        ASSERT_OK(got) << kind.name;
        ASSERT_EQ(*got, CropAndResize(meaning, crop, 24, 20, flip)) << kind.name;
        // The other number of channels.
        const auto other = DecodeCrop(decoder, png, crop, {.channels = 4 - meaning.channels});
        ASSERT_OK(other) << kind.name;
      }
    }
  }
}

TEST(PngReader, MakesGreyOfColourBeforeItResizes) {
  PictureDecoder decoder;
  const Pixels photo = MakePhoto(kPngWide, kPngHigh, 3, 2);
  const std::string png = EncodePng(
      kPngWide, kPngHigh, std::vector<uint16_t>(photo.values.begin(), photo.values.end()), {}, {});
  Pixels luma{kPngWide, kPngHigh, 1};
  for (size_t i = 0; i < photo.values.size(); i += 3) {
    luma.values.push_back(
        static_cast<uint8_t>(std::floor(0.299 * photo.values[i] + 0.587 * photo.values[i + 1] +
                                        0.114 * photo.values[i + 2] + 0.5)));
  }
  const CropBox crop{4, 5, 50, 30};
  const auto got = DecodeCrop(decoder, png, crop, {.channels = 1});
  ASSERT_OK(got);
  EXPECT_LE(Compare(*got, CropAndResize(luma, crop, 24, 20, false)).largest, 1);
}

TEST(WebpReader, IsBitEqualToAFullDecodeThatIsCropped) {
  PictureDecoder decoder;
  for (const bool lossless : {false, true}) {
    for (const int channels : {3, 4}) {
      const std::string webp = EncodeWebp(MakePhoto(139, 101, channels, 3), 80, lossless);
      const Pixels full = DecodeWebp(webp);
      for (uint64_t seed = 0; seed < 60; ++seed) {
        const CropBox crop = SomeCrop(139, 101, 10 * seed);
        const auto got = DecodeCrop(decoder, webp, crop, {});
        ASSERT_OK(got);
        ASSERT_EQ(*got, CropAndResize(full, crop, 24, 20, false))
            << crop.width << "x" << crop.height << " at " << crop.x << ", " << crop.y;
      }
      EXPECT_OK(DecodeCrop(decoder, webp, {0, 0, 139, 101}, {.channels = 1}));
    }
  }
}

TEST(PictureDecoder, KeepsNothingOfThePictureBefore) {
  PictureDecoder decoder;
  const std::string large = EncodeJpeg(MakePhoto(300, 200, 3, 3), {});
  const std::string grey = EncodeJpeg(MakePhoto(40, 30, 1, 3), {.across = 1, .down = 1});
  const std::string webp = EncodeWebp(MakePhoto(50, 40, 3, 3), 80, false);
  for (const std::string* file : {&grey, &large, &webp, &grey, &large}) {
    PictureDecoder fresh;
    const auto wanted = DecodeCrop(fresh, *file, {3, 4, 30, 20}, {});
    ASSERT_OK(wanted);
    const auto got = DecodeCrop(decoder, *file, {3, 4, 30, 20}, {});
    ASSERT_OK(got);
    EXPECT_EQ(*got, *wanted);
    // Nor of one that failed.
    EXPECT_FALSE(DecodeCrop(decoder, file->substr(0, file->size() / 2), {3, 4, 30, 20}, {}).ok());
  }
}

}  // namespace
}  // namespace muster::testing
