// The GPT-2 family of language models (Radford et al. 2019): a decoder-only transformer with the
// layer norms before each part, learned positions and the token table as its head.
#pragma once

#include <cstdint>
#include <memory>

#include "worker/models/base/model.h"

namespace muster::worker {

struct Gpt2Config {
  int64_t layers = 12;
  int64_t heads = 12;      // divides width
  int64_t width = 768;     // of an embedding
  int64_t context = 1024;  // tokens that it can look back on
  int64_t vocabulary = 50257;
  double dropout = 0;  // of embeddings, attention and both residual branches
};

// Hugging Face's GPT2LMHeadModel: its names, its Conv1D weights of shape [in, out], gelu_new, and
// its initial weights: normal with deviation 0.02, that of the residual projections divided by
// sqrt(2 x layers). The head is the token table itself, so `lm_head.weight` is no tensor of its
// own; save_pretrained leaves it out of a safetensors file as well.
//
// Inputs are tokens, int64 [B, T]; values are logits [B, T, vocabulary], but for a large vocabulary
// with the head apart (token_head.h). INVALID_ARGUMENT when a sample is no row of tokens, is longer
// than the context, or has tokens beyond the vocabulary.
absl::StatusOr<std::unique_ptr<Model>> MakeGpt2(const Gpt2Config& config,
                                                const ModelContext& context);

}  // namespace muster::worker
