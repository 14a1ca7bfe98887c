// The encoder of a masked autoencoder as the weights of a Vision Transformer: what fine-tuning
// starts from.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "worker/models/base/model.h"

namespace muster::worker {

// Takes the state of MakeMae (or a file of Hugging Face's ViTMAE, published names) and gives the
// state of MakeVit with the same patch_size, layers, heads and width on pictures of the same size,
// but for "heads.head.*". Query, key and value become one weight; decoder and other names that do
// not start with "vit." are left out. The tensors share memory where they can.
//
// FAILED_PRECONDITION, naming it, when a tensor is missing or of a wrong shape, or a name of the
// encoder is not known.
absl::StatusOr<std::vector<ModelTensor>> MaeEncoderToVit(const std::vector<ModelTensor>& mae);

// Whether these are weights of a masked autoencoder at all.
bool IsMae(const std::vector<ModelTensor>& tensors);

}  // namespace muster::worker
