// Between torch's element types and safetensors'.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>

#include "common/ckpt/safetensors.h"

namespace muster::worker {

// Nothing for a type that checkpoints do not hold.
std::optional<TensorType> ToTensorType(c10::ScalarType type);
c10::ScalarType ToScalarType(TensorType type);

}  // namespace muster::worker
