// How long something took: by the clock that nobody sets. For measurements that decide nothing.
#pragma once

#include <chrono>

namespace muster::worker {

class Stopwatch {
 public:
  Stopwatch() : start_(std::chrono::steady_clock::now()) {}
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  const std::chrono::steady_clock::time_point start_;
};

}  // namespace muster::worker
