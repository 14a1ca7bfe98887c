// Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): 128 random
// bits for each counter of 128 bits, under a key of 64. Pure, without state: whoever knows counter
// and key has the bits, in any order.
//
// Used by RandomStream.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace muster::worker {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

constexpr std::array<uint32_t, 4> Philox4x32(PhiloxCounter counter, PhiloxKey key) {
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t even = uint64_t{0xD2511F53} * counter[0];
    const uint64_t odd = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(odd >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(odd),
               static_cast<uint32_t>(even >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(even)};
    key = {key[0] + 0x9E3779B9u,
           key[1] + 0xBB67AE85u};  // Weyl sequences of the golden ratio, sqrt 3
  }
  return counter;
}

}  // namespace muster::worker
