// Which layer of a network a parameter belongs to, told from names alone: for a learning rate that
// falls layer by layer. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster::worker {

// For each of a model's parameters its layer from the input up: 0 is what stands before the first
// block (stem, patch and position embeddings), each residual or transformer block is a layer, and
// the last number is what stands behind them (final norm, head, the decoder of a masked
// autoencoder). Knows the names of resnet and vit (as torchvision's), mae and gpt2 (as Hugging
// Face's). Empty when no name is one of a block.
std::vector<int64_t> LayerNumbers(const std::vector<std::string>& names);

}  // namespace muster::worker
