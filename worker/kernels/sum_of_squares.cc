#include "worker/kernels/sum_of_squares.h"

#include <algorithm>

#include "worker/kernels/instruction_sets.h"

namespace muster::worker {
namespace {

// So many numbers are added up as floats, side by side in so many lanes, before they join a double.
constexpr int64_t kBlock = 4096;
constexpr int64_t kLanes = 32;

struct SumKernel {
  [[gnu::always_inline]] static double Run(const float* numbers, int64_t count) {
    double sum = 0;
    while (count > 0) {
      const int64_t whole = std::min(kBlock, count) / kLanes * kLanes;
      float lanes[kLanes] = {};
      for (int64_t begin = 0; begin < whole; begin += kLanes) {
        for (int64_t lane = 0; lane < kLanes; ++lane)
          lanes[lane] += numbers[begin + lane] * numbers[begin + lane];
      }
      for (const float lane : lanes) sum += lane;
      const int64_t rest = whole == 0 ? count : 0;
      for (int64_t i = 0; i < rest; ++i) sum += double{numbers[i]} * numbers[i];
      numbers += whole + rest;
      count -= whole + rest;
    }
    return sum;
  }
};

}  // namespace

double SumOfSquares(const float* numbers, int64_t count) {
  return RunKernel<SumKernel>(numbers, count);
}

}  // namespace muster::worker
