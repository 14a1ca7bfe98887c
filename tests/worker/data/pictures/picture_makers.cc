#include "tests/worker/data/pictures/picture_makers.h"

#include <png.h>
#include <stdio.h>
#include <stdlib.h>
// libjpeg's header needs stdio's.
#include <jpeglib.h>
#include <webp/decode.h>
#include <webp/encode.h>

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "common/base/rng.h"

namespace muster::testing {
namespace {

size_t Size(int a, int b = 1, int c = 1) {
  return static_cast<size_t>(a) * static_cast<size_t>(b) * static_cast<size_t>(c);
}

void AppendNumber(std::string& out, uint32_t value, int bytes, bool little) {
  for (int i = 0; i < bytes; ++i)
    out += static_cast<char>(value >> (8 * (little ? i : bytes - 1 - i)));
}

void AppendPng(png_structp png, png_bytep bytes, size_t count) {
  static_cast<std::string*>(png_get_io_ptr(png))
      ->append(reinterpret_cast<const char*>(bytes), count);
}

}  // namespace

Pixels MakePhoto(int width, int height, int channels, uint64_t seed, int noise) {
  Pixels pixels{width, height, channels, std::vector<uint8_t>(Size(width, height, channels))};
  const double phase = static_cast<double>(SplitMix64(seed) % 1000) / 100;
  uint64_t state = seed * 1000003;
  size_t at = 0;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const double u = static_cast<double>(x) / 40 + phase, v = static_cast<double>(y) / 37 + phase;
      const double base = 128 + 60 * std::sin(u + 0.6 * v) + 25 * std::sin(3.1 * v - 1.7 * u);
      const double edge = (static_cast<int>(u * 0.9) + static_cast<int>(v * 0.7)) % 3 == 0 ? 22 : 0;
      const uint64_t random = SplitMix64(state++);
      // A texture that all channels share, and a quarter of it of their own.
      const int shared = noise == 0 ? 0 : static_cast<int>(random % (2 * noise + 1)) - noise;
      for (int c = 0; c < channels; ++c) {
        const int own =
            noise == 0 ? 0
                       : static_cast<int>((random >> (16 + 8 * c)) % (noise / 2 + 1)) - noise / 4;
        const double value = base + edge + shared + own + 30 * std::sin(0.5 * u + 2 * c);
        pixels.values[at++] = static_cast<uint8_t>(std::clamp(value, 0.0, 255.0));
      }
    }
  }
  return pixels;
}

std::string ExifOf(int orientation, bool little_endian) {
  std::string tiff = little_endian ? std::string("II*\0", 4) : std::string("MM\0*", 4);
  AppendNumber(tiff, 8, 4, little_endian);       // where the directory is
  AppendNumber(tiff, 1, 2, little_endian);       // entries
  AppendNumber(tiff, 0x0112, 2, little_endian);  // Orientation
  AppendNumber(tiff, 3, 2, little_endian);       // SHORT
  AppendNumber(tiff, 1, 4, little_endian);
  AppendNumber(tiff, static_cast<uint32_t>(orientation), 2, little_endian);
  AppendNumber(tiff, 0, 2, little_endian);
  AppendNumber(tiff, 0, 4, little_endian);  // no other directory
  return tiff;
}

std::string EncodeJpeg(const Pixels& pixels, const JpegOptions& options) {
  jpeg_compress_struct codec;
  jpeg_error_mgr errors;
  codec.err = jpeg_std_error(&errors);
  jpeg_create_compress(&codec);
  unsigned char* out = nullptr;
  unsigned long out_bytes = 0;
  jpeg_mem_dest(&codec, &out, &out_bytes);
  codec.image_width = static_cast<JDIMENSION>(pixels.width);
  codec.image_height = static_cast<JDIMENSION>(pixels.height);
  codec.input_components = pixels.channels;
  codec.in_color_space = pixels.channels == 1   ? JCS_GRAYSCALE
                         : pixels.channels == 4 ? JCS_CMYK
                                                : JCS_RGB;
  jpeg_set_defaults(&codec);
  jpeg_set_quality(&codec, options.quality, TRUE);
  if (pixels.channels == 4 && options.adobe_ycck) jpeg_set_colorspace(&codec, JCS_YCCK);
  codec.comp_info[0].h_samp_factor = options.across;
  codec.comp_info[0].v_samp_factor = options.down;
  if (pixels.channels == 4) {
    codec.comp_info[3].h_samp_factor = options.across;
    codec.comp_info[3].v_samp_factor = options.down;
  }
  codec.restart_interval = options.restart_interval;
  codec.arith_code = options.arithmetic ? TRUE : FALSE;
  if (options.progressive) jpeg_simple_progression(&codec);
  std::vector<jpeg_scan_info> scans;
  if (options.a_scan_each) {
    scans.push_back({pixels.channels, {0, 1, 2, 3}, 0, 0, 0, 0});
    for (int component = 0; component < pixels.channels; ++component) {
      for (int at = 1; at < 64; ++at) scans.push_back({1, {component}, at, at, 0, 0});
    }
    codec.scan_info = scans.data();
    codec.num_scans = static_cast<int>(scans.size());
  }
  jpeg_start_compress(&codec, TRUE);
  if (options.orientation != 0) {
    const std::string exif = std::string("Exif\0\0", 6) + ExifOf(options.orientation, true);
    jpeg_write_marker(&codec, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(exif.data()),
                      static_cast<unsigned>(exif.size()));
  }
  while (codec.next_scanline < codec.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(pixels.at(0, static_cast<int>(codec.next_scanline)));
    jpeg_write_scanlines(&codec, &row, 1);
  }
  jpeg_finish_compress(&codec);
  jpeg_destroy_compress(&codec);
  std::string jpeg(reinterpret_cast<const char*>(out), out_bytes);
  ::free(out);
  return jpeg;
}

Pixels DecodeJpeg(absl::string_view jpeg) {
  jpeg_decompress_struct codec;
  jpeg_error_mgr errors;
  codec.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&codec);
  jpeg_mem_src(&codec, reinterpret_cast<const unsigned char*>(jpeg.data()), jpeg.size());
  jpeg_read_header(&codec, TRUE);
  if (codec.num_components == 4) codec.out_color_space = JCS_CMYK;
  jpeg_start_decompress(&codec);
  Pixels pixels{static_cast<int>(codec.output_width), static_cast<int>(codec.output_height),
                codec.output_components};
  pixels.values.resize(Size(pixels.width, pixels.height, pixels.channels));
  while (codec.output_scanline < codec.output_height) {
    JSAMPROW row = const_cast<JSAMPROW>(pixels.at(0, static_cast<int>(codec.output_scanline)));
    jpeg_read_scanlines(&codec, &row, 1);
  }
  jpeg_finish_decompress(&codec);
  MUSTER_CHECK(errors.num_warnings == 0, "a reference decodes without a warning");
  jpeg_destroy_decompress(&codec);
  return pixels;
}

std::string EncodePng(int width, int height, const std::vector<uint16_t>& samples,
                      const std::vector<uint8_t>& palette, const PngOptions& options) {
  std::string out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &out, AppendPng, nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height),
               options.bit_depth, options.colour_type,
               options.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (options.colour_type == PNG_COLOR_TYPE_PALETTE) {
    std::vector<png_color> colours(palette.size() / 3);
    for (size_t i = 0; i < colours.size(); ++i)
      colours[i] = {palette[3 * i], palette[3 * i + 1], palette[3 * i + 2]};
    png_set_PLTE(png, info, colours.data(), static_cast<int>(colours.size()));
  }
  if (options.transparency) {
    const png_byte alphas[2] = {0, 100};
    png_color_16 colour = {};
    png_set_tRNS(png, info, alphas, 2, &colour);
  }
  png_write_info(png, info);
  const int channels = options.colour_type == 2   ? 3
                       : options.colour_type == 6 ? 4
                       : options.colour_type == 4 ? 2
                                                  : 1;
  const size_t row_samples = Size(width, channels);
  const size_t row_bytes = (row_samples * static_cast<size_t>(options.bit_depth) + 7) / 8;
  std::vector<uint8_t> packed(row_bytes * static_cast<size_t>(height));
  std::vector<png_bytep> rows;
  for (int y = 0; y < height; ++y) {
    uint8_t* row = packed.data() + row_bytes * static_cast<size_t>(y);
    rows.push_back(row);
    for (size_t i = 0; i < row_samples; ++i) {
      const uint32_t value = samples[static_cast<size_t>(y) * row_samples + i];
      if (options.bit_depth == 16) {
        row[2 * i] = static_cast<uint8_t>(value >> 8);
        row[2 * i + 1] = static_cast<uint8_t>(value);
      } else {
        const size_t bit = i * static_cast<size_t>(options.bit_depth);
        row[bit / 8] |= static_cast<uint8_t>(value << (8 - options.bit_depth - bit % 8));
      }
    }
  }
  png_write_image(png, rows.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return out;
}

std::string EncodeWebp(const Pixels& pixels, float quality, bool lossless) {
  uint8_t* out = nullptr;
  const int stride = pixels.width * pixels.channels;
  const uint8_t* values = pixels.values.data();
  const int width = pixels.width, height = pixels.height;
  size_t bytes = 0;
  if (pixels.channels == 4) {
    bytes = lossless ? WebPEncodeLosslessRGBA(values, width, height, stride, &out)
                     : WebPEncodeRGBA(values, width, height, stride, quality, &out);
  } else {
    bytes = lossless ? WebPEncodeLosslessRGB(values, width, height, stride, &out)
                     : WebPEncodeRGB(values, width, height, stride, quality, &out);
  }
  std::string webp(reinterpret_cast<const char*>(out), bytes);
  WebPFree(out);
  return webp;
}

Pixels DecodeWebp(absl::string_view webp) {
  Pixels pixels;
  uint8_t* out = WebPDecodeRGB(reinterpret_cast<const uint8_t*>(webp.data()), webp.size(),
                               &pixels.width, &pixels.height);
  MUSTER_CHECK(out != nullptr, "a reference decodes");
  pixels.values.assign(out, out + Size(pixels.width, pixels.height, 3));
  WebPFree(out);
  return pixels;
}

}  // namespace muster::testing
