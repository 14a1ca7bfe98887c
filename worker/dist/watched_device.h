// A c10d backend: one whose operations run on a device behind the host's back, such as NCCL, and
// end when a rank dies or one of them fails.
//
// Used by process_group.cc. A device that waits for a rank that has died waits for ever, and the
// host behind it. So a thread looks at a PeerWatch and at the backend's own error. Once either
// tells of one it is noted, and the backend is aborted: then its operations end on the device, with
// whatever they have, and later ones throw. So nothing that came of an operation is to be believed
// before Check was asked, after the host has seen the device get there.
//
// allreduce and broadcast alone, one thread at a time. A rank that goes while its newest operation
// is open has failed, to the others.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <memory>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "worker/dist/peer_watch.h"

namespace muster::worker {

class WatchedDevice final : public c10d::Backend {
 public:
  // `watch` is of the same ranks as `backend`, which knows getError and abort.
  WatchedDevice(c10::intrusive_ptr<c10d::Backend> backend, std::unique_ptr<PeerWatch> watch);
  ~WatchedDevice() override;

  // Throws a c10::DistBackendError once a rank was lost, or an operation failed. Any thread.
  void Check();

  const std::string getBackendName() const override { return backend_->getBackendName(); }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;

 private:
  c10::intrusive_ptr<c10d::Work> Begin(
      absl::FunctionRef<c10::intrusive_ptr<c10d::Work>()> operation);
  void Watch();
  bool StoppedWithin(absl::Duration limit);
  absl::Status BackendState();
  absl::Status Note(const absl::Status& state);

  c10::intrusive_ptr<c10d::Backend> backend_;
  const std::unique_ptr<PeerWatch> watch_;  // of the thread alone, while it runs
  std::atomic<uint64_t> begun_ = 0;         // operations
  c10::intrusive_ptr<c10d::Work> newest_;

  Mutex mutex_;
  CondVar changed_;
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  absl::Status lost_ MUSTER_GUARDED_BY(mutex_);  // the first that was noted
  bool aborted_ = false;                         // of the thread alone, while it runs
  std::thread thread_;                           // last: it uses the others
};

}  // namespace muster::worker
