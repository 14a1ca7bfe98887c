// Whole numbers in files: little-endian, whatever the machine. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

namespace muster {

template <typename T>
void AppendLittleEndian(std::string& out, T value) {
  static_assert(std::is_unsigned_v<T>);
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

// Requires sizeof(T) bytes.
template <typename T>
T ReadLittleEndian(const char* bytes) {
  static_assert(std::is_unsigned_v<T>);
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value |= static_cast<T>(static_cast<T>(static_cast<uint8_t>(bytes[i])) << (8 * i));
  return value;
}

}  // namespace muster
