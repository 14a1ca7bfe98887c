// What the ranks of one gang do together: sums, broadcasts, barriers.
//
// Our own interface: no c10d in it, so that the other folders of worker may use it. The one
// implementation is Gang (gang.h).
// Every function is a collective: all ranks call it, in the same order. One thread at a time. They
// throw what the transport throws (c10::Error, std::exception); train/step/torch_guard turns that
// into a Status, PEER_LOST among them. Nothing waits longer than CollectivesOptions::timeout.
#pragma once

#include <string>

namespace at {
class Tensor;
}

namespace muster::worker {

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
};

}  // namespace muster::worker
