#include "worker/kernels/dense_backward.h"

#include "worker/kernels/instruction_sets.h"

namespace muster::worker {
namespace {

struct PassReluKernel {
  [[gnu::always_inline]] static void Run(int64_t rows, int64_t columns,
                                         const float* __restrict gradient,
                                         const float* __restrict active, float* __restrict passed,
                                         double* __restrict sums) {
    for (int64_t at = 0; at < rows * columns; at += columns) {
      for (int64_t i = 0; i < columns; ++i) {
        const float value = active[at + i] > 0 ? gradient[at + i] : 0.0f;
        passed[at + i] = value;
        sums[i] += value;
      }
    }
  }
};

struct SumRowsKernel {
  [[gnu::always_inline]] static void Run(int64_t rows, int64_t columns,
                                         const float* __restrict gradient,
                                         double* __restrict sums) {
    for (int64_t at = 0; at < rows * columns; at += columns) {
      for (int64_t i = 0; i < columns; ++i) sums[i] += gradient[at + i];
    }
  }
};

}  // namespace

void PassRelu(int64_t rows, int64_t columns, const float* gradient, const float* active,
              float* passed, double* column_sums) {
  RunKernel<PassReluKernel>(rows, columns, gradient, active, passed, column_sums);
}

void SumRows(int64_t rows, int64_t columns, const float* gradient, double* column_sums) {
  RunKernel<SumRowsKernel>(rows, columns, gradient, column_sums);
}

}  // namespace muster::worker
