#include "worker/data/index/index_layout.h"

#include <xxhash.h>

#include "common/fs/little_endian.h"

namespace muster::worker {
namespace {

uint64_t HashOf(absl::string_view footer) { return XXH3_64bits(footer.data(), footer.size()); }

}  // namespace

std::string EncodeIndexEntry(const IndexEntry& entry) {
  std::string bytes;
  AppendLittleEndian(bytes, entry.offset);
  AppendLittleEndian(bytes, entry.key_end);
  AppendLittleEndian(bytes, entry.size);
  AppendLittleEndian(bytes, entry.file);
  AppendLittleEndian(bytes, static_cast<uint32_t>(entry.label));
  return bytes;
}

IndexEntry DecodeIndexEntry(const char* bytes) {
  return {ReadLittleEndian<uint64_t>(bytes), ReadLittleEndian<uint64_t>(bytes + 8),
          ReadLittleEndian<uint64_t>(bytes + 16), ReadLittleEndian<uint32_t>(bytes + 24),
          static_cast<int32_t>(ReadLittleEndian<uint32_t>(bytes + 28))};
}

std::string EncodeIndexFile(const IndexFile& file) {
  std::string bytes;
  AppendLittleEndian(bytes, file.size_bytes);
  AppendLittleEndian(bytes, file.path_end);
  return bytes;
}

IndexFile DecodeIndexFile(const char* bytes) {
  return {ReadLittleEndian<uint64_t>(bytes), ReadLittleEndian<uint64_t>(bytes + 8)};
}

std::string EncodeIndexTail(absl::string_view footer) {
  std::string bytes;
  AppendLittleEndian(bytes, static_cast<uint32_t>(footer.size()));
  AppendLittleEndian(bytes, HashOf(footer));
  bytes.append(kIndexMagic.data(), kIndexMagic.size());
  return bytes;
}

absl::string_view FindIndexFooter(absl::string_view index) {
  if (index.size() < kIndexMagic.size() + kIndexTailBytes) return {};
  if (index.substr(0, kIndexMagic.size()) != kIndexMagic) return {};
  const absl::string_view tail = index.substr(index.size() - kIndexTailBytes);
  if (tail.substr(12) != kIndexMagic) return {};
  const uint64_t size = ReadLittleEndian<uint32_t>(tail.data());
  const uint64_t before = index.size() - kIndexTailBytes;
  if (size > kMaxIndexFooterBytes || size > before - kIndexMagic.size()) return {};
  const absl::string_view footer = index.substr(before - size, size);
  return HashOf(footer) == ReadLittleEndian<uint64_t>(tail.data() + 4) ? footer
                                                                       : absl::string_view();
}

}  // namespace muster::worker
