// Thins a series of unknown length out to a few points, evenly spread, its first and last among
// them. It holds a few times as many as are chosen in the end. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "controller/store/metrics/points/point_codec.h"

namespace muster::controller {

class PointThinner {
 public:
  explicit PointThinner(size_t most) : most_(most) {}

  void Add(const PackedPoint& point);  // ascending
  // At most `most` of what was added.
  std::vector<PackedPoint> Choose() const;

 private:
  const size_t most_;
  std::vector<PackedPoint> kept_;  // each stride_th
  PackedPoint last_;
  uint64_t added_ = 0;
  uint64_t stride_ = 1;
};

}  // namespace muster::controller
