// A permutation of [0, size) that needs no memory: a keyed Feistel cipher with cycle walking.
//
// Used by every order of training. Pure; any thread may ask.
#pragma once

#include <array>
#include <cstdint>

namespace muster::worker {

class Permutation {
 public:
  // Each seed and each round (such as an epoch) has a permutation of its own. Requires size > 0.
  Permutation(uint64_t seed, uint64_t round, uint64_t size);

  // Requires place < size.
  uint64_t operator()(uint64_t place) const;

 private:
  // Luby and Rackoff: 4 rounds give a pseudo-random permutation of large domains; small ones want
  // more.
  static constexpr uint64_t kRounds = 8;
  uint64_t Encrypt(uint64_t value) const;

  uint64_t size_;
  int half_bits_;
  std::array<uint64_t, kRounds> keys_;
};

// Of one place alone.
uint64_t Permute(uint64_t seed, uint64_t round, uint64_t size, uint64_t place);

}  // namespace muster::worker
