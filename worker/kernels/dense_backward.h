// The backward pass of a dense layer's activation and bias on a CPU, in one pass over the gradient.
//
// Used by models/layers/dense. Knows no torch. Matrices are [rows, columns], one row after the
// other.
#pragma once

#include <cstdint>

namespace muster::worker {

// passed = gradient where `active` (a rectifier's results) is above 0, else 0; the sums of that
// over the rows are added to `column_sums`. Nothing overlaps.
void PassRelu(int64_t rows, int64_t columns, const float* gradient, const float* active,
              float* passed, double* column_sums);

// Adds the sums over the rows to `column_sums`.
void SumRows(int64_t rows, int64_t columns, const float* gradient, double* column_sums);

}  // namespace muster::worker
