// The last layer of a language model: of each hidden state one logit for each token, by a table
// that has a row for each token of the vocabulary.
//
// Used by GPT-2 and, where the logits are left to the loss, by that (chunked_cross_entropy.h).
// Shapes: W width, V vocabulary, P the same padded to a multiple.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace muster::worker {

// From so many tokens on the logits of a batch, and what its loss makes of them, take more memory
// than a network's activations, so that a model leaves them to the loss. By the vocabulary, not by
// the batch: all batches of a run go one way, and a memory estimate from a few samples that of the
// steps.
inline constexpr int64_t kLargeVocabulary = 4096;

// What the rows of a table are padded to for a product on `device`. The fast kernels of a GPU want
// rows of whole tiles: GPT-2's 50257 tokens become 50304.
int64_t RowMultiple(at::Device device);

// The table with rows of zeros behind its own, up to a multiple: [P, W], differentiable. In each
// pass, not once for all: so the parameter, the optimizer's state and every file keep the
// vocabulary's shape, on all devices, and beside the product the copy costs little.
at::Tensor PadRows(const at::Tensor& table_VW, int64_t multiple);

// hidden table^T: [..., V] of [..., W]. A view without the columns that were padded.
at::Tensor TokenLogits(const at::Tensor& hidden, const at::Tensor& table_VW, int64_t multiple);

}  // namespace muster::worker
