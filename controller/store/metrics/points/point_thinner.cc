#include "controller/store/metrics/points/point_thinner.h"

#include <algorithm>

namespace muster::controller {

void PointThinner::Add(const PackedPoint& point) {
  last_ = point;
  if (added_++ % stride_ == 0) kept_.push_back(point);
  if (kept_.size() < std::max<size_t>(most_, 2) * 4) return;
  for (size_t i = 0; 2 * i < kept_.size(); ++i) kept_[i] = kept_[2 * i];
  kept_.resize((kept_.size() + 1) / 2);
  stride_ *= 2;
}

std::vector<PackedPoint> PointThinner::Choose() const {
  std::vector<PackedPoint> all = kept_;
  if (!all.empty() && all.back().step != last_.step) all.push_back(last_);
  if (all.size() <= most_) return all;
  std::vector<PackedPoint> chosen;
  for (size_t i = 0; i < most_; ++i) {
    chosen.push_back(most_ == 1 ? all.back() : all[i * (all.size() - 1) / (most_ - 1)]);
  }
  return chosen;
}

}  // namespace muster::controller
