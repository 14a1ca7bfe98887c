// A copy of named tensors in host memory, whose buffers are used again for the next copy. Not
// thread-safe.
#pragma once

#include <vector>

#include "common/ckpt/safetensors.h"
#include "worker/checkpoint/named_tensor.h"

namespace muster::worker {

class TensorSnapshot {
 public:
  // Copies; takes new memory only for tensors whose place, shape or type changed since the last
  // time. Throws what torch throws. Requires element types that safetensors files hold.
  void Copy(const NamedTensors& tensors);

  // The copy as bytes; valid until the next Copy.
  std::vector<TensorBytes> Bytes() const;

 private:
  NamedTensors copies_;
};

}  // namespace muster::worker
