#include "worker/data/parquet/page_codec.h"

#include <snappy-c.h>
#include <zlib.h>
#include <zstd.h>

#include <memory>

#include "absl/strings/str_cat.h"

namespace muster::worker {
namespace {

// What a byte of a stream can give at most: a page that is said to be larger is not made room for.
constexpr uint64_t kMostFromSnappy = 64;        // a copy of 64 bytes takes two
constexpr uint64_t kMostFromDeflate = 1032;     // 258 bytes in two bits
constexpr uint64_t kMostFromZstd = 128u << 10;  // a block of one byte, repeated

absl::Status BadStream(const char* codec, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("its ", codec, " data ", what));
}

bool CanGive(absl::string_view stored, uint64_t size, uint64_t most_of_a_byte) {
  return size / most_of_a_byte <= stored.size();
}

absl::Status UnpackSnappy(absl::string_view stored, uint64_t size, std::string& out) {
  size_t told = 0;
  if (snappy_uncompressed_length(stored.data(), stored.size(), &told) != SNAPPY_OK) {
    return BadStream("snappy", "are damaged");
  }
  if (told != size || !CanGive(stored, size, kMostFromSnappy)) {
    return BadStream("snappy", "have another size");
  }
  out.resize(size);
  size_t got = size;
  if (snappy_uncompress(stored.data(), stored.size(), out.data(), &got) != SNAPPY_OK ||
      got != size) {
    return BadStream("snappy", "are damaged");
  }
  return absl::OkStatus();
}

// One member or several, one after the other, as gzip's own program writes them.
absl::Status UnpackGzip(absl::string_view stored, uint64_t size, std::string& out) {
  if (!CanGive(stored, size, kMostFromDeflate)) return BadStream("gzip", "have another size");
  z_stream stream = {};
  constexpr int kGzipOrZlib = 15 + 32;  // the largest window; the header tells which of the two
  if (::inflateInit2(&stream, kGzipOrZlib) != Z_OK) {
    return absl::ResourceExhaustedError("zlib got no memory");
  }
  const std::unique_ptr<z_stream, int (*)(z_stream*)> closer(&stream, &::inflateEnd);
  out.resize(size + 1);  // a byte that is one too many shows that the stream goes on
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(stored.data()));
  stream.avail_in = static_cast<uInt>(stored.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  do {
    if (::inflate(&stream, Z_FINISH) != Z_STREAM_END) {
      return BadStream("gzip", "are damaged, cut off or of another size");
    }
    if (stream.avail_in > 0 && ::inflateReset(&stream) != Z_OK) {
      return BadStream("gzip", "are damaged");
    }
  } while (stream.avail_in > 0);
  if (stream.avail_out != 1) return BadStream("gzip", "have another size");
  out.resize(size);
  return absl::OkStatus();
}

absl::Status UnpackZstd(absl::string_view stored, uint64_t size, std::string& out) {
  if (!CanGive(stored, size, kMostFromZstd)) return BadStream("zstd", "have another size");
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(::ZSTD_createDCtx(),
                                                                   &::ZSTD_freeDCtx);
  if (context == nullptr) return absl::ResourceExhaustedError("zstd got no memory");
  out.resize(size);
  const size_t got =
      ::ZSTD_decompressDCtx(context.get(), out.data(), out.size(), stored.data(), stored.size());
  if (::ZSTD_isError(got) != 0) return BadStream("zstd", ::ZSTD_getErrorName(got));
  if (got != size) return BadStream("zstd", "have another size");
  return absl::OkStatus();
}

}  // namespace

absl::Status DecompressPage(ParquetCodec codec, absl::string_view stored, uint64_t size,
                            std::string& out) {
  const char* name = "";
  switch (codec) {
    case ParquetCodec::kUncompressed:
      if (stored.size() != size) return absl::InvalidArgumentError("it has two sizes");
      out.assign(stored.data(), stored.size());
      return absl::OkStatus();
    case ParquetCodec::kSnappy:
      return UnpackSnappy(stored, size, out);
    case ParquetCodec::kGzip:
      return UnpackGzip(stored, size, out);
    case ParquetCodec::kZstd:
      return UnpackZstd(stored, size, out);
    case ParquetCodec::kLzo:
      name = "LZO";
      break;
    case ParquetCodec::kBrotli:
      name = "BROTLI";
      break;
    case ParquetCodec::kLz4:
      name = "LZ4";
      break;
    case ParquetCodec::kLz4Raw:
      name = "LZ4_RAW";
      break;
  }
  return absl::UnimplementedError(
      absl::StrCat("codec ", name, " is not read: write the file with zstd, snappy, gzip or none"));
}

}  // namespace muster::worker
