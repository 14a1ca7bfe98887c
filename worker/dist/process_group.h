// What the ranks of one generation of a gang reach each other through: a c10d backend, shared
// memory, Gloo or both on the CPU, NCCL on CUDA.
//
// Used by gang.cc, which has one after another, and by strategies.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "absl/status/statusor.h"
#include "worker/dist/gang.h"
#include "worker/dist/watched_device.h"

namespace muster::worker {

struct ProcessGroup {
  // Called directly: a c10d::ProcessGroup in between would send every call through the dispatcher.
  // Null: a gang of one, or none.
  c10::intrusive_ptr<c10d::Backend> backend;
  std::string transport;
  bool in_place = false;  // takes whole lists of gradients and knows their mean: no buckets
  bool averages = false;  // knows the mean of a bucket
  c10::intrusive_ptr<WatchedDevice> device = nullptr;  // the same one, on a GPU
  int64_t number = 0;  // another one whenever the gang that has it ends or forms
  bool ended = false;  // that gang has left it

  // Whether there is nobody to exchange anything with. Throws when it has ended.
  bool IsAlone() const;
  // As Collectives::Broadcast.
  void Broadcast(const at::Tensor& tensor, int root) const;
};

// All ranks call it. Codes and what is thrown as Gang::Form.
absl::StatusOr<ProcessGroup> MakeProcessGroup(const std::shared_ptr<KeyValue>& store,
                                              const CollectivesOptions& options);

}  // namespace muster::worker
