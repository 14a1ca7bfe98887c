// What the table of metrics shows of one metric, folded point by point in bounded memory: a run of
// millions of steps has more points than fit. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace muster::cli {

class MetricFold {
 public:
  // The points come in the order of their steps.
  void Add(double value);

  uint64_t count() const { return count_; }
  double first() const { return first_; }
  double last() const { return last_; }
  // Of the values that are numbers; NaN: there are none.
  double least() const { return least_; }
  double most() const { return most_; }
  // At most kMostMeans means of equally many values one after the other; the last of fewer.
  std::vector<double> Curve() const;

  static constexpr size_t kMostMeans = 512;

 private:
  struct Group {
    double sum = 0;
    uint64_t count = 0;
  };

  uint64_t count_ = 0;
  double first_ = 0;
  double last_ = 0;
  double least_ = std::numeric_limits<double>::quiet_NaN();
  double most_ = std::numeric_limits<double>::quiet_NaN();
  uint64_t group_size_ = 1;
  std::vector<Group> groups_;
};

}  // namespace muster::cli
