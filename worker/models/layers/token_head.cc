#include "worker/models/layers/token_head.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/linear.h>

namespace muster::worker {
namespace {

constexpr int64_t kTileRows = 64;

int64_t PaddingRows(int64_t vocabulary, int64_t multiple) {
  return (multiple - vocabulary % multiple) % multiple;
}

}  // namespace

int64_t RowMultiple(at::Device device) { return device.is_cuda() ? kTileRows : 1; }

at::Tensor PadRows(const at::Tensor& table_VW, int64_t multiple) {
  const int64_t rows = PaddingRows(table_VW.size(0), multiple);
  return rows == 0 ? table_VW : at::constant_pad_nd(table_VW, {0, 0, 0, rows});
}

at::Tensor TokenLogits(const at::Tensor& hidden, const at::Tensor& table_VW, int64_t multiple) {
  const int64_t vocabulary = table_VW.size(0);
  // The table itself, where it can be: autocast casts a leaf once a step, and an exported network
  // has no operators but these.
  if (PaddingRows(vocabulary, multiple) == 0) return at::linear(hidden, table_VW);
  return at::linear(hidden, PadRows(table_VW, multiple)).narrow(-1, 0, vocabulary);
}

}  // namespace muster::worker
