// XXH3-128 of a stream of bytes, whole and per block of 4 MiB, so that a broken file can be told
// apart from a whole one, and the broken place named. Not thread-safe. Not cryptographic: it finds
// faults of disks and networks; the manifest's SHA-256 is what names a checkpoint.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster {

inline constexpr uint64_t kHashBlockBytes = 4u << 20;

// Canonical (big-endian) XXH3-128, as `xxhsum -H2` prints it.
using Hash128 = std::array<uint8_t, 16>;

std::string HashToHex(const Hash128& hash);
std::optional<Hash128> HashFromHex(absl::string_view hex);  // 32 lower-case hex digits

class BlockHasher {
 public:
  struct Result {
    uint64_t size_bytes = 0;
    Hash128 whole{};
    std::vector<Hash128> blocks;  // one for each started 4 MiB; none for an empty file
  };

  BlockHasher();
  ~BlockHasher();

  void Update(absl::string_view bytes);
  // Ends the stream; the hasher starts anew.
  Result Finish();

 private:
  struct States;
  void EndBlock();

  std::unique_ptr<States> states_;
  uint64_t block_fill_bytes_ = 0;
  Result result_;
};

}  // namespace muster
