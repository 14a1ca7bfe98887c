#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tests/worker/data/pictures/decoded_crop.h"
#include "worker/data/pictures/jpeg/jpeg_repack.h"

namespace muster::testing {
namespace {

using ::muster::worker::CropBox;
using ::muster::worker::PictureDecoder;
using ::muster::worker::PictureHeader;
using ::muster::worker::PictureKind;
using ::muster::worker::ReadPictureHeader;
using ::muster::worker::RepackJpeg;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr int kSide = 40;

struct SmallFile {
  const char* name;
  std::string bytes;
};

const std::vector<SmallFile>& SmallFiles() {
  static const std::vector<SmallFile>* files = [] {
    const Pixels photo = MakePhoto(kSide, kSide, 3, 9);
    const std::vector<uint16_t> samples(photo.values.begin(), photo.values.end());
    return new std::vector<SmallFile>{
        {"JPEG", EncodeJpeg(photo, {.quality = 60})},
        {"JPEG with restart markers", EncodeJpeg(photo, {.quality = 60, .restart_interval = 3})},
        {"progressive JPEG", EncodeJpeg(photo, {.quality = 60, .progressive = true})},
        {"CMYK JPEG", EncodeJpeg(MakePhoto(kSide, kSide, 4, 9), {.quality = 60})},
        {"PNG", EncodePng(kSide, kSide, samples, {}, {})},
        {"interlaced PNG", EncodePng(kSide, kSide, samples, {}, {.interlaced = true})},
        {"WebP", EncodeWebp(photo, 60, false)},
        {"WebP with alpha", EncodeWebp(MakePhoto(kSide, kSide, 4, 9), 60, false)},
        {"lossless WebP", EncodeWebp(photo, 60, true)},
    };
  }();
  return *files;
}

// A copy of just that size on the heap, so that a sanitizer sees a read beyond it.
std::vector<char> Exactly(absl::string_view bytes) {
  return std::vector<char>(bytes.begin(), bytes.end());
}

TEST(DamagedPictures, AreRefusedWhereverTheyAreCutOffWhateverTheCrop) {
  PictureDecoder decoder;
  for (const SmallFile& file : SmallFiles()) {
    const auto header = ReadPictureHeader(file.bytes);
    ASSERT_OK(header) << file.name;
    std::vector<uint8_t> out(16 * 16 * 3);
    for (size_t size = 0; size < file.bytes.size(); ++size) {
      const std::vector<char> part = Exactly(absl::string_view(file.bytes).substr(0, size));
      const absl::string_view bytes(part.data(), part.size());
      for (const CropBox& crop : {CropBox{0, 0, kSide, kSide}, CropBox{3, 2, 10, 1}}) {
        const absl::Status status =
            decoder.Decode(bytes, *header, crop, {16, 16, 3, false, false, out.data()});
        // The last byte of a PNG belongs to a checksum that nobody needs; a WebP may end in a byte
        // that only makes it even.
        if (status.ok() && size + 4 >= file.bytes.size() && header->kind != PictureKind::kJpeg) {
          continue;
        }
        ASSERT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                                     AnyOf(HasSubstr("cut off"), HasSubstr("damaged"),
                                           HasSubstr("no JPEG"), HasSubstr("ends"))))
            << file.name << " of " << size << " bytes";
      }
    }
    EXPECT_OK(DecodeCrop(decoder, file.bytes, {0, 0, kSide, kSide}, {}));
  }
}

TEST(DamagedPictures, AreDecodedOrRefusedWhateverBitIsWrong) {
  PictureDecoder decoder;
  for (const SmallFile& file : SmallFiles()) {
    int refused = 0;
    const auto header = ReadPictureHeader(file.bytes);
    ASSERT_OK(header);
    std::vector<uint8_t> out(16 * 16 * 3);
    for (size_t bit = 0; bit < 8 * file.bytes.size(); bit += 1 + SplitMix64(bit) % 15) {
      std::vector<char> damaged = Exactly(file.bytes);
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
      const absl::string_view bytes(damaged.data(), damaged.size());
      // With the header of the whole file, and with its own.
      const absl::Status status =
          decoder.Decode(bytes, *header, {1, 2, 37, 33}, {16, 16, 3, false, false, out.data()});
      if (!status.ok()) ++refused;
      const auto own = ReadPictureHeader(bytes);
      if (own.ok()) {
        (void)decoder.Decode(bytes, *own, {1, 2, 37, 33}, {16, 16, 3, false, false, out.data()});
      }
      if (header->kind == PictureKind::kJpeg) (void)RepackJpeg(bytes);
    }
    EXPECT_GT(refused, 0) << file.name;
    EXPECT_OK(DecodeCrop(decoder, file.bytes, {0, 0, kSide, kSide}, {}));
  }
}

TEST(DamagedPictures, ABombIsRefusedByItsHeader) {
  PictureDecoder decoder;
  std::string jpeg = SmallFiles()[0].bytes;
  const size_t frame = jpeg.find("\xFF\xC0");
  ASSERT_NE(frame, std::string::npos);
  for (size_t i = 5; i < 9; ++i) jpeg[frame + i] = '\xFF';
  EXPECT_THAT(DecodeCrop(decoder, jpeg, {0, 0, 65535, 65535}, {}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("65535x65535")));
  std::string png = SmallFiles()[4].bytes;
  png[16] = 0x7F;
  EXPECT_THAT(DecodeCrop(decoder, png, {0, 0, 40, 40}, {}),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(DamagedPictures, ADecoderHoldsNoMoreThanItMay) {
  PictureDecoder small({.max_decoder_bytes = 200000});
  const Pixels photo = MakePhoto(300, 300, 3, 9);
  const std::vector<uint16_t> samples(photo.values.begin(), photo.values.end());
  const CropBox crop{10, 10, 50, 50};
  EXPECT_OK(DecodeCrop(small, EncodeJpeg(photo, {}), crop, {}));
  EXPECT_OK(DecodeCrop(small, EncodePng(300, 300, samples, {}, {}), crop, {}));
  const std::string whole[] = {EncodeJpeg(photo, {.progressive = true}),
                               EncodePng(300, 300, samples, {}, {.interlaced = true}),
                               EncodeWebp(photo, 80, true)};
  for (const std::string& file : whole) {
    EXPECT_THAT(DecodeCrop(small, file, crop, {}), StatusIs(absl::StatusCode::kResourceExhausted));
  }
}

TEST(DamagedPictures, AFileOfManyScansIsRefused) {
  PictureDecoder decoder;
  const CropBox whole{0, 0, kSide, kSide};
  // 64 scans are read, 190 are not.
  EXPECT_OK(DecodeCrop(
      decoder,
      EncodeJpeg(MakePhoto(kSide, kSide, 1, 9), {.across = 1, .down = 1, .a_scan_each = true}),
      whole, {}));
  const std::string jpeg = EncodeJpeg(MakePhoto(kSide, kSide, 3, 9), {.a_scan_each = true});
  EXPECT_THAT(DecodeCrop(decoder, jpeg, whole, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("more than 100 scans")));
  EXPECT_THAT(RepackJpeg(jpeg),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("more than 100 scans")));
}

TEST(DamagedPictures, BytesBetweenSegmentsAreNoDamage) {
  std::string jpeg = SmallFiles()[0].bytes;
  PictureDecoder decoder;
  const auto before = DecodeCrop(decoder, jpeg, {0, 0, kSide, kSide}, {});
  ASSERT_OK(before);
  jpeg.insert(jpeg.find("\xFF\xC0"), "stray");
  jpeg.insert(jpeg.size() - 2, "stray");
  jpeg += "and more behind the end";
  const auto after = DecodeCrop(decoder, jpeg, {0, 0, kSide, kSide}, {});
  ASSERT_OK(after);
  EXPECT_EQ(*after, *before);
}

TEST(PictureDecoder, RefusesACropOutsideOfThePictureAndATargetThatIsNone) {
  PictureDecoder decoder;
  const std::string& jpeg = SmallFiles()[0].bytes;
  for (const CropBox& crop :
       {CropBox{0, 0, 41, 40}, CropBox{0, 0, 40, 41}, CropBox{-1, 0, 10, 10},
        CropBox{0, -1, 10, 10}, CropBox{1, 0, 40, 40}, CropBox{0, 0, 0, 10}, CropBox{0, 0, 10, -5},
        CropBox{2147483647, 0, 2147483647, 1}, CropBox{}}) {
    EXPECT_THAT(DecodeCrop(decoder, jpeg, crop, {}), StatusIs(absl::StatusCode::kOutOfRange));
  }
  const auto header = ReadPictureHeader(jpeg);
  ASSERT_OK(header);
  std::vector<uint8_t> out(100);
  const CropBox crop{0, 0, 10, 10};
  EXPECT_THAT(decoder.Decode(jpeg, *header, crop, {0, 4, 3, false, false, out.data()}),
              StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(decoder.Decode(jpeg, *header, crop, {4, 4, 2, false, false, out.data()}),
              StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(decoder.Decode(jpeg, *header, crop, {4, 4, 3, false, false, nullptr}),
              StatusIs(absl::StatusCode::kOutOfRange));
}

TEST(PictureDecoder, RefusesBytesThatAreNotTheHeadersPicture) {
  PictureDecoder decoder;
  std::vector<uint8_t> out(16 * 16 * 3);
  for (const SmallFile& of_header : SmallFiles()) {
    auto header = ReadPictureHeader(of_header.bytes);
    ASSERT_OK(header);
    header->width += 8;
    for (const SmallFile& of_bytes : SmallFiles()) {
      EXPECT_THAT(decoder.Decode(of_bytes.bytes, *header, {30, 30, 10, 10},
                                 {16, 16, 3, false, false, out.data()}),
                  StatusIs(absl::StatusCode::kInvalidArgument))
          << of_bytes.name << " as " << of_header.name;
    }
  }
}

}  // namespace
}  // namespace muster::testing
