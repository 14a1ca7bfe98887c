// The bytes of one fuzz input, read from front to back; when they are used up, everything is zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace muster::testing {

class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  bool empty() const { return size_ == 0; }
  uint8_t Byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  // 0 to count - 1.
  uint32_t Below(uint32_t count) { return count <= 1 ? 0 : Byte() % count; }
  // True in `of` cases of 256.
  bool Chance(int of) { return Byte() < of; }
  uint64_t Word() {
    uint64_t word = 0;
    for (int i = 0; i < 8; ++i) word = word << 8 | Byte();
    return word;
  }
  std::string Bytes(size_t most) {
    const size_t size = most < size_ ? most : size_;
    std::string out(reinterpret_cast<const char*>(data_), size);
    data_ += size;
    size_ -= size;
    return out;
  }
  absl::string_view Rest() const {
    return absl::string_view(reinterpret_cast<const char*>(data_), size_);
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

}  // namespace muster::testing
