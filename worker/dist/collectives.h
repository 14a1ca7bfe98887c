// What the ranks of one gang do together: sums, broadcasts, and the synchronisation of gradients.
//
// Our own interface: no c10d in it, so that the other folders of worker may use it. The one
// implementation is Gang (gang.h).
// Every function is a collective: all ranks call it, in the same order. One thread at a time. They
// throw what the transport throws (c10::Error, std::exception); train/step/torch_guard turns that
// into a Status, PEER_LOST among them. Nothing waits longer than CollectivesOptions::timeout.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace at {
class Tensor;
}

namespace muster::worker {

// Turns each rank's gradient into the mean over all ranks, while the backward pass still runs where
// possible.
class GradientSync {
 public:
  virtual ~GradientSync() = default;

  // Forgets the gradients of the last step. Call before the forward pass of a step.
  virtual void BeginStep() = 0;

  // Backward pass of `loss_weight * loss` without an exchange: the gradient stays on this rank and
  // is added to that of the Backward which ends the step. Any number of times between BeginStep and
  // Backward, as often on every rank. gradients() are not valid until AwaitMean.
  virtual void Accumulate(const at::Tensor& loss, const at::Tensor& loss_weight) = 0;

  // Backward pass of `loss_weight * loss`; begins the exchange. `loss` and `loss_weight` are 0-dim
  // on the device. `control` are a few numbers of this rank (control_size of them) that ride along
  // with the gradients, so that ranks agree without a collective of its own.
  virtual void Backward(const at::Tensor& loss, const at::Tensor& loss_weight,
                        const at::Tensor& control) = 0;

  // Ends the exchange; on a device its stream waits, not the host. Afterwards each parameter's
  // grad() is the mean over the ranks of what Backward and the Accumulate calls of the step gave,
  // bit-equal on all of them.
  virtual void AwaitMean() = 0;

  // The mean over all ranks of what they passed as `control`: [control_size] on the device. Valid
  // until BeginStep.
  virtual const at::Tensor& control() const = 0;

  // The gradients in the order of the parameters. Valid until BeginStep.
  virtual const std::vector<at::Tensor>& gradients() const = 0;

  // How much of the last Backward went into the exchange, which on shared memory holds it up.
  virtual absl::Duration exchange_in_backward() const = 0;
};

struct GradientSyncOptions {
  int64_t control_size = 0;
  // Gradients are exchanged in buckets in the order in which they become ready. A small first one
  // starts early.
  int64_t first_bucket_bytes = int64_t{1} << 20;
  int64_t bucket_bytes = int64_t{25} << 20;
};

class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  // "local", "shared_memory", "gloo" or "nccl"; over several hosts "nccl" and "two_level" with the
  // ranks of each, such as "two_level 0-1,2-3": part of the result, for it decides in which order
  // sums are taken.
  virtual std::string transport() const = 0;

  // Throws when a rank was lost or a collective failed that ran on a device, whose numbers may then
  // be anything. To be asked before numbers that came of the gang are trusted, once the host has
  // them. No collective; any thread. Of ranks on the CPU the collectives themselves throw.
  virtual void Check() const {}

  // In place: the sum over all ranks. Contiguous, on the gang's device.
  virtual void AllReduceSum(at::Tensor& tensor) = 0;
  // In place: the values of rank `root`.
  virtual void Broadcast(at::Tensor& tensor, int root) = 0;
  // Root's text on every rank; on the others `text` is replaced.
  virtual void BroadcastText(std::string& text, int root) = 0;
  virtual void Barrier() = 0;

  // Parameters: leaves that require a gradient, the same ones in the same order on every rank, on
  // the gang's device. The gang must outlive it; it goes on over the new ranks when that is formed
  // again.
  virtual std::unique_ptr<GradientSync> MakeGradientSync(const std::vector<at::Tensor>& parameters,
                                                         const GradientSyncOptions& options) = 0;
  // What a GradientSync of these holds beside their gradients: the buckets that these are copied
  // into. No collective.
  virtual int64_t BucketBytes(const std::vector<at::Tensor>& parameters) const = 0;
};

}  // namespace muster::worker
