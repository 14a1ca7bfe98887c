// Each small change to a file that a disk or a network may make.
#pragma once

#include <functional>
#include <string>

namespace muster::testing {

// Calls with the file cut off before each of its bytes.
inline void ForEachTruncation(const std::string& bytes,
                              const std::function<void(const std::string& cut)>& check) {
  for (size_t size = 0; size < bytes.size(); ++size) check(bytes.substr(0, size));
}

// Calls with each single bit turned over; `at` is the bit's byte.
inline void ForEachBitFlip(std::string bytes,
                           const std::function<void(const std::string& broken, size_t at)>& check) {
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const char mask = static_cast<char>(1 << (bit % 8));
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
    check(bytes, bit / 8);
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
  }
}

}  // namespace muster::testing
