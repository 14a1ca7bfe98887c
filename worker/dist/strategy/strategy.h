// How the ranks of a gang share a training step and the state that it changes: who computes which
// gradient, who updates which weights, who saves them.
//
// Used by the training step and by the checkpoints, which know of no other rule. There is one, data
// parallelism (ddp.h): every rank holds everything, and all see the mean of the gradients. One
// whose ranks hold shards (ZeRO, FSDP) is another implementation, and no change of the step; of the
// checkpoints, which read on rank 0 alone so far, it is. "The gradients" are those by which this
// rank updates what it holds. All ranks call the functions in the same order.
// One thread. Throws what the collectives throw.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"

namespace at {
class Tensor;
}

namespace muster::worker {

class Strategy {
 public:
  using Tensors = std::vector<at::Tensor>;
  virtual ~Strategy() = default;

  // Forgets the gradients of the last step, however that ended. Call before the forward pass of a
  // step.
  virtual void BeginStep() = 0;

  // Backward pass of `loss_weight * loss` without an exchange: the gradient stays on this rank and
  // is added to that of the Backward which ends the step. Any number of times between BeginStep and
  // Backward, as often on every rank.
  virtual void Accumulate(const at::Tensor& loss, const at::Tensor& loss_weight) = 0;

  // Backward pass of `loss_weight * loss`; begins the exchange. `loss` and `loss_weight` are 0-dim
  // on the device. `control` are a few numbers of this rank (control_size of them) that ride along
  // with the gradients, so that ranks agree without a collective of its own.
  virtual void Backward(const at::Tensor& loss, const at::Tensor& loss_weight,
                        const at::Tensor& control) = 0;

  // Ends the exchange; on a device its stream waits, not the host. From here to BeginStep the
  // gradients are the mean over the ranks of what Backward and the Accumulate calls of the step
  // gave.
  virtual void Await() = 0;

  // The mean over all ranks of what they passed as `control`: [control_size] on the device.
  virtual const at::Tensor& control() const = 0;
  // The gradients, to be changed in place: in data parallelism in the order of the parameters, and
  // bit-equal on all ranks.
  virtual const Tensors& gradients() const = 0;
  // Multiplies the gradients by `factor` (0-dim, on the device). Returns fp32 [1] on the device: 1
  // where one of the whole gang's is not finite, else 0. No host read.
  virtual at::Tensor Scale(const at::Tensor& factor) = 0;
  // The norm of all gradients of the gang together, as GradientNorm (gradient_norm.h).
  virtual at::Tensor Norm() const = 0;
  // Lets `step` change the weights that this rank updates. Afterwards all ranks have all weights
  // that their next forward pass needs.
  virtual void Update(absl::FunctionRef<void(const Tensors& gradients)> step) = 0;

  // How much of the last Backward went into the exchange, which on shared memory holds it up. Of
  // this rank.
  virtual absl::Duration exchange_in_backward() const = 0;
  // What it holds on this rank beside gradients and state while steps run.
  virtual int64_t buffer_bytes() const = 0;

  // Whether this rank saves `tensor`, of the state of the run, and reads it back: in data
  // parallelism rank 0 everything, the others nothing.
  virtual bool Saves(const at::Tensor& tensor) const = 0;
  // After tensors of `state`, the same ones in the same order on every rank, were read by those who
  // save them: all ranks have what is theirs of them.
  virtual void Restored(const Tensors& state) = 0;
};

// What gradients travel as; they are computed and applied in their own type.
enum class Compression { kNone, kFp16, kBf16 };

struct StrategyOptions {
  int64_t control_size = 0;
  // Gradients are exchanged in buckets in the order in which they become ready. A small first one
  // starts early.
  int64_t first_bucket_bytes = int64_t{1} << 20;
  int64_t bucket_bytes = int64_t{25} << 20;
};

}  // namespace muster::worker
