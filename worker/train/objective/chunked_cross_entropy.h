// The cross-entropy of a language model's last layer without the logits of a whole batch: they are
// made for some rows at a time, and what is wanted of them, the loss and its gradients, is kept.
//
// With GPT-2's vocabulary the logits, their softmax and its gradient are most of the memory of a
// step. Used by the language model's objective. The gradients are made in the forward pass, while a
// chunk's logits are there (as the Liger kernels do, Hsu et al. 2024), so that no product is made
// twice. Chunks follow each other in one order: the same bits each time. Throws what torch throws.
// Shapes: R rows (tokens of a batch), W width, V vocabulary.
#pragma once

#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace muster::worker {

struct ChunkedLoss {
  at::Tensor loss;         // fp32, 0-dim; differentiable, once
  at::Tensor predicted_R;  // int64: the likeliest token of each row
};

struct ChunkOptions {
  int64_t reduction = at::Reduction::Mean;  // over the targets that count; or Sum
  double label_smoothing = 0;
  int64_t chunk_rows = 0;    // above 0; ChunkRows
  int64_t row_multiple = 1;  // what the table is padded to (token_head.h)
};

// at::cross_entropy_loss(hidden table^T, targets), with at::linear's type of the product under
// autocast and sums in fp32. Targets, int64, that are torch's ignore_index, -100, count nothing.
ChunkedLoss ChunkedCrossEntropy(const at::Tensor& hidden_RW, const at::Tensor& table_VW,
                                const at::Tensor& targets_R, const ChunkOptions& options);

// The rows whose logits are made at once.
int64_t ChunkRows(int64_t vocabulary);

}  // namespace muster::worker
