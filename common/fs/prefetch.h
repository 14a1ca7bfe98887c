// A hint that bytes will be read soon, for file systems that are far away. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

namespace muster {

class Prefetch {
 public:
  virtual ~Prefetch() = default;
  // Begins to fetch [offset, offset + bytes) of the path and returns at once. Never fails: what
  // goes wrong is said to who reads the bytes, and a hint too many is dropped.
  virtual void WillRead(const std::string& path, uint64_t offset, uint64_t bytes) = 0;
};

}  // namespace muster
