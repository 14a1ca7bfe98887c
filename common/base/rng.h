// Counter-based random bits: pure functions of their arguments, so any thread, rank or resume gets
// the same ones.
#pragma once

#include <cstdint>

namespace muster {

// Steele, Lea, Flood 2014 (SplitMix64's output function applied to state + golden gamma).
constexpr uint64_t SplitMix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// One stream for each purpose and position: seeds that differ in any argument are unrelated.
constexpr uint64_t DeriveSeed(uint64_t seed, uint64_t purpose, uint64_t position = 0) {
  return SplitMix64(SplitMix64(SplitMix64(seed) ^ purpose) ^ position);
}

}  // namespace muster
