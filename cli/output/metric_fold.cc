#include "cli/output/metric_fold.h"

#include <cmath>

namespace muster::cli {

void MetricFold::Add(double value) {
  if (count_++ == 0) first_ = value;
  last_ = value;
  // Each prefers the one that is a number.
  least_ = std::fmin(least_, value);
  most_ = std::fmax(most_, value);
  if (groups_.empty() || groups_.back().count == group_size_) {
    if (groups_.size() == kMostMeans) {
      for (size_t i = 0; i < kMostMeans / 2; ++i) {
        const Group& left = groups_[2 * i];
        const Group& right = groups_[2 * i + 1];
        groups_[i] = {left.sum + right.sum, left.count + right.count};
      }
      groups_.resize(kMostMeans / 2);
      group_size_ *= 2;
    }
    groups_.emplace_back();
  }
  groups_.back().sum += value;
  ++groups_.back().count;
}

std::vector<double> MetricFold::Curve() const {
  std::vector<double> means;
  means.reserve(groups_.size());
  for (const Group& group : groups_) {
    means.push_back(group.sum / static_cast<double>(group.count));
  }
  return means;
}

}  // namespace muster::cli
