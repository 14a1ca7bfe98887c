// A picture as augmentation sees it, and a part of one. Plain data: whoever calls owns the values.
#pragma once

#include <cstdint>

namespace muster::worker {

struct Picture {
  float* values = nullptr;  // [channels, height, width], from 0 to 1; changed in place
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;

  int64_t plane() const { return height * width; }
  int64_t size() const { return channels * height * width; }
};

// In pixels of its picture.
struct Window {
  int64_t top = 0;
  int64_t left = 0;
  int64_t height = 0;
  int64_t width = 0;

  friend bool operator==(const Window&, const Window&) = default;
};

}  // namespace muster::worker
