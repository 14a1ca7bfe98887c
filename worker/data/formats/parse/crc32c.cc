#include "worker/data/formats/parse/crc32c.h"

#include <string.h>

#include <array>
#include <cstddef>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace muster::worker {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78u;

using CrcTables = std::array<std::array<uint32_t, 256>, 8>;

constexpr CrcTables MakeTables() {
  CrcTables tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][i] = crc;
  }
  // Table k: what a byte does that is followed by k bytes.
  for (uint32_t i = 0; i < 256; ++i) {
    for (size_t k = 1; k < 8; ++k) {
      tables[k][i] = (tables[k - 1][i] >> 8) ^ tables[0][tables[k - 1][i] & 0xff];
    }
  }
  return tables;
}

constexpr CrcTables kTables = MakeTables();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t InstructionCrc32c(absl::string_view bytes,
                                                             uint32_t crc) {
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  uint64_t state = static_cast<uint32_t>(~crc);
  for (; end - at >= 8; at += 8) {
    uint64_t word;
    ::memcpy(&word, at, 8);
    state = _mm_crc32_u64(state, word);
  }
  uint32_t rest = static_cast<uint32_t>(state);
  for (; at != end; ++at) rest = _mm_crc32_u8(rest, static_cast<uint8_t>(*at));
  return ~rest;
}
#endif

}  // namespace

uint32_t PortableCrc32c(absl::string_view bytes, uint32_t crc) {
  uint32_t state = ~crc;
  size_t at = 0;
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(bytes[i])); };
  for (; bytes.size() - at >= 8; at += 8) {
    uint32_t next = 0;
    for (size_t i = 0; i < 8; ++i) {
      const uint32_t mixed = byte(at + i) ^ (i < 4 ? (state >> (8 * i)) & 0xff : 0);
      next ^= kTables[7 - i][mixed];
    }
    state = next;
  }
  for (; at < bytes.size(); ++at) state = (state >> 8) ^ kTables[0][(state ^ byte(at)) & 0xff];
  return ~state;
}

uint32_t Crc32c(absl::string_view bytes, uint32_t crc) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return InstructionCrc32c(bytes, crc);
#endif
  return PortableCrc32c(bytes, crc);
}

}  // namespace muster::worker
