#include "common/object_store/cache/block_file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr absl::string_view kMagic = "MUSTERB1";
constexpr size_t kKeyBytes = 64;
constexpr uint64_t kFixedBytes = 80;
constexpr uint64_t kChunkBytes = 64 << 10;

uint64_t ChunksOf(uint64_t block_bytes) {
  return block_bytes / kChunkBytes + (block_bytes % kChunkBytes != 0 ? 1 : 0);
}

void AppendU64(uint64_t value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

uint64_t U64At(absl::string_view bytes, uint64_t offset) {
  uint64_t value = 0;
  ::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

uint64_t Checksum(absl::string_view bytes) { return ::XXH3_64bits(bytes.data(), bytes.size()); }

absl::Status PreadWhole(int fd, uint64_t offset, char* buffer, uint64_t bytes) {
  while (bytes > 0) {
    const ssize_t got = ::pread(fd, buffer, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::UnavailableError(::strerrordesc_np(errno));
    if (got == 0) return absl::DataLossError("it is cut off");
    buffer += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<uint64_t>(got);
  }
  return absl::OkStatus();
}

absl::Status CheckHeader(absl::string_view header, absl::string_view key, uint64_t block_bytes) {
  const absl::string_view summed = header.substr(0, header.size() - sizeof(uint64_t));
  if (header.substr(0, kMagic.size()) != kMagic ||
      U64At(header, summed.size()) != Checksum(summed)) {
    return absl::DataLossError("its header is damaged");
  }
  if (header.substr(kMagic.size(), kKeyBytes) != key || U64At(header, 72) != block_bytes) {
    return absl::DataLossError("it is another block");
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t BlockHeaderBytes(uint64_t block_bytes) {
  return kFixedBytes + (ChunksOf(block_bytes) + 1) * sizeof(uint64_t);
}

std::string EncodeBlockHeader(absl::string_view key, absl::string_view block) {
  MUSTER_CHECK(key.size() == kKeyBytes, "a key has 64 digits");
  std::string header = absl::StrCat(kMagic, key);
  AppendU64(block.size(), header);
  for (uint64_t at = 0; at < block.size(); at += kChunkBytes) {
    AppendU64(Checksum(block.substr(at, kChunkBytes)), header);
  }
  AppendU64(Checksum(header), header);
  return header;
}

absl::Status ReadBlock(int fd, absl::string_view key, uint64_t block_bytes, uint64_t offset,
                       char* buffer, uint64_t bytes) {
  MUSTER_CHECK(offset <= block_bytes && bytes <= block_bytes - offset, "a range lies in its block");
  std::string header(BlockHeaderBytes(block_bytes), '\0');
  MUSTER_RETURN_IF_ERROR(PreadWhole(fd, 0, header.data(), header.size()));
  MUSTER_RETURN_IF_ERROR(CheckHeader(header, key, block_bytes));
  if (bytes == 0) return absl::OkStatus();
  const uint64_t first = offset / kChunkBytes;
  const uint64_t last = (offset + bytes - 1) / kChunkBytes;
  std::string held;  // a chunk of which only a part is wanted
  for (uint64_t chunk = first; chunk <= last; ++chunk) {
    const uint64_t begin = chunk * kChunkBytes;
    const uint64_t size = std::min(kChunkBytes, block_bytes - begin);
    const bool is_whole = begin >= offset && begin + size <= offset + bytes;
    if (!is_whole) held.resize(size);
    char* to = is_whole ? buffer + (begin - offset) : held.data();
    MUSTER_RETURN_IF_ERROR(PreadWhole(fd, header.size() + begin, to, size));
    if (Checksum(absl::string_view(to, size)) != U64At(header, kFixedBytes + chunk * 8)) {
      return absl::DataLossError("its bytes are damaged");
    }
    if (is_whole) continue;
    const uint64_t from = std::max(begin, offset);
    const uint64_t until = std::min(begin + size, offset + bytes);
    ::memcpy(buffer + (from - offset), held.data() + (from - begin), until - from);
  }
  return absl::OkStatus();
}

}  // namespace muster
