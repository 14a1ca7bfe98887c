#include "worker/dist/watched_device.h"

#include <c10/util/ScopeExit.h>

#include <string>
#include <utility>

#include "common/base/log.h"

namespace muster::worker {
namespace {

// Between two looks at the peers, and at the backend's error.
constexpr absl::Duration kLookEvery = absl::Milliseconds(100);

}  // namespace

WatchedDevice::WatchedDevice(c10::intrusive_ptr<c10d::Backend> backend,
                             std::unique_ptr<PeerWatch> watch)
    : c10d::Backend(backend->getRank(), backend->getSize()),
      backend_(std::move(backend)),
      watch_(std::move(watch)),
      thread_([this] { Watch(); }) {}

WatchedDevice::~WatchedDevice() {
  bool lost = false;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    lost = !lost_.ok();
    changed_.NotifyAll();
  }
  thread_.join();
  if (!lost && (newest_ == nullptr || newest_->isCompleted())) {
    newest_.reset();
    backend_.reset();  // waits for what it still owes the others
    watch_->Leave(begun_);
    return;
  }
  // Nobody is to wait for what will never end here.
  watch_->Leave(begun_ > 0 ? begun_ - 1 : 0);
  if (!aborted_) backend_->abort();
}

c10::intrusive_ptr<c10d::Work> WatchedDevice::allreduce(std::vector<at::Tensor>& tensors,
                                                        const c10d::AllreduceOptions& options) {
  return Begin([&] { return backend_->allreduce(tensors, options); });
}

c10::intrusive_ptr<c10d::Work> WatchedDevice::broadcast(std::vector<at::Tensor>& tensors,
                                                        const c10d::BroadcastOptions& options) {
  return Begin([&] { return backend_->broadcast(tensors, options); });
}

// Counts it from before its call, which may block: a peer that left in good order before it will
// not take part. One that did not begin is open to the others, and they miss this rank.
c10::intrusive_ptr<c10d::Work> WatchedDevice::Begin(
    absl::FunctionRef<c10::intrusive_ptr<c10d::Work>()> operation) {
  begun_ += 1;
  auto did_not_begin = c10::make_scope_exit([this] { begun_ -= 1; });
  newest_ = operation();
  did_not_begin.release();
  return newest_;
}

void WatchedDevice::Check() {
  const absl::Status state = Note(BackendState());
  TORCH_CHECK_WITH(DistBackendError, state.ok(), std::string(state.message()));
}

void WatchedDevice::Watch() {
  while (!StoppedWithin(kLookEvery)) {
    const absl::Status peers = watch_->Check(begun_);
    const absl::Status state = Note(peers.ok() ? BackendState() : peers);
    if (state.ok()) continue;
    Log(LogLevel::kWarning, "collectives_aborted", {{"reason", state.message()}});
    aborted_ = true;
    backend_->abort();  // throws where that takes too long: then the process ends
    return;
  }
}

bool WatchedDevice::StoppedWithin(absl::Duration limit) {
  MutexLock lock(mutex_);
  if (!stopping_) changed_.WaitFor(mutex_, limit);
  return stopping_;
}

absl::Status WatchedDevice::BackendState() {
  switch (backend_->getError()) {
    case c10d::ErrorType::SUCCESS:
      return absl::OkStatus();
    case c10d::ErrorType::TIMEOUT:
      return absl::UnavailableError("a collective took too long: another rank hangs");
    default:
      return absl::UnavailableError("a collective failed: another rank cannot be reached");
  }
}

// Returns what was noted first.
absl::Status WatchedDevice::Note(const absl::Status& state) {
  MutexLock lock(mutex_);
  if (lost_.ok()) lost_ = state;
  return lost_;
}

}  // namespace muster::worker
