#include "worker/data/order/permutation.h"

#include <algorithm>
#include <bit>

#include "common/base/check.h"
#include "common/base/rng.h"

namespace muster::worker {
namespace {

// Purpose number of DeriveSeed: part of the result, never changed.
constexpr uint64_t kOrderPurpose = 0x6f72646572;  // "order"

// An even number of bits, so that both halves are equal; the domain is below 4 times the size, and
// walking out of it takes few turns.
int HalfBits(uint64_t size) {
  const int bits = std::max(2, static_cast<int>(std::bit_width(size - 1)));
  return (bits + 1) / 2;
}

}  // namespace

Permutation::Permutation(uint64_t seed, uint64_t round, uint64_t size)
    : size_(size), half_bits_(HalfBits(size)) {
  MUSTER_CHECK(size > 0, "a permutation has places");
  const uint64_t key = DeriveSeed(seed, kOrderPurpose, round);
  for (uint64_t i = 0; i < kRounds; ++i) keys_[i] = SplitMix64(SplitMix64(key) ^ i);
}

uint64_t Permutation::operator()(uint64_t place) const {
  MUSTER_CHECK(place < size_, "a place lies in the set");
  if (size_ == 1) return 0;
  // The cipher is a permutation of a domain that holds [0, size): from a place inside, repeating
  // it comes back inside, at a place that no other start reaches.
  do {
    place = Encrypt(place);
  } while (place >= size_);
  return place;
}

uint64_t Permutation::Encrypt(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_;
  uint64_t right = value & mask;
  for (const uint64_t key : keys_) {
    const uint64_t mixed = left ^ (SplitMix64(key ^ right) & mask);  // DeriveSeed's last step
    left = right;
    right = mixed;
  }
  return left << half_bits_ | right;
}

uint64_t Permute(uint64_t seed, uint64_t round, uint64_t size, uint64_t place) {
  return Permutation(seed, round, size)(place);
}

}  // namespace muster::worker
