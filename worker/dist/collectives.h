// What the ranks of one gang do together: sums, broadcasts, and the synchronisation of gradients.
//
// Our own interface: no c10d in it, so that another transport or another strategy than data
// parallelism is a new implementation and no change to the callers.
// Every function is a collective: all ranks call it, in the same order. One thread at a time. They
// throw what the transport throws (c10::Error, std::exception); train/step/torch_guard turns that
// into a Status, PEER_LOST among them. Nothing waits longer than CollectivesOptions::timeout.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "worker/dist/base/key_value.h"

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
  // the gang's device.
  virtual std::unique_ptr<GradientSync> MakeGradientSync(const std::vector<at::Tensor>& parameters,
                                                         const GradientSyncOptions& options) = 0;
  // What a GradientSync of these holds beside their gradients: the buckets that these are copied
  // into. No collective.
  virtual int64_t BucketBytes(const std::vector<at::Tensor>& parameters) const = 0;
};

// How CPU ranks reach each other. GPU ranks always use NCCL.
enum class Transport {
  // Shared memory where all ranks run on one host; where some of several hosts have several ranks,
  // shared memory inside the hosts and Gloo between them; else, and where memory cannot be shared,
  // Gloo.
  kAuto,
  kGloo,          // TCP
  kSharedMemory,  // or fail
};

// What gradients travel as; they are computed and applied in their own type.
enum class Compression { kNone, kFp16, kBf16 };

struct CollectivesOptions {
  int rank = 0;
  int world_size = 1;
  std::string advertise_address = "127.0.0.1";  // where the other ranks reach this one
  int gpu = -1;                                 // index of the CUDA device, or -1: CPU
  absl::Duration timeout = absl::Minutes(10);   // of the rendezvous and of each collective
  std::string prefix;  // of every key in the store; fresh for each life of the group
  Transport transport = Transport::kAuto;
  Compression compression = Compression::kNone;
  // Every step uses the same parameters, and each as often: then those that the loss does not
  // depend on hold up no bucket, and a parameter may get its gradient in several parts.
  bool static_graph = false;
};

// Collectives::BucketBytes of a gang that is not there yet. Where only its making will tell how its
// ranks reach each other, they are taken to share a host. Pure.
int64_t PlannedBucketBytes(const std::vector<at::Tensor>& parameters,
                           const CollectivesOptions& options);

// A gang of one needs no store and talks to nobody.
std::unique_ptr<Collectives> MakeLocalCollectives();

// Data parallelism over c10d: shared memory, Gloo or both on the CPU, NCCL on CUDA. Waits for all
// ranks; throws when they do not come. FAILED_PRECONDITION, on all ranks, that says why: the
// transport that was asked for cannot be had.
absl::StatusOr<std::unique_ptr<Collectives>> MakeCollectives(std::shared_ptr<KeyValue> store,
                                                             const CollectivesOptions& options);

}  // namespace muster::worker
