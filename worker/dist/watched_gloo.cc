#include "worker/dist/watched_gloo.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue_inl.h>

#include <utility>
#include <vector>

#include "common/base/deadline.h"
#include "common/base/mutex.h"

namespace muster::worker {
namespace {

using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// Between two looks at the peers. What ends sooner costs none.
constexpr absl::Duration kSlice = absl::Milliseconds(100);

// Set by a thread of Gloo's when an operation has ended.
class Ending {
 public:
  void Set() {
    {
      MutexLock lock(mutex_);
      set_ = true;
    }
    changed_.NotifyOne();
  }
  // Returns whether it is set.
  bool WaitFor(absl::Duration limit) {
    const Deadline deadline(limit);
    MutexLock lock(mutex_);
    while (!set_) {
      if (deadline.over()) return false;
      changed_.WaitFor(mutex_, deadline.left());
    }
    return true;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool set_ MUSTER_GUARDED_BY(mutex_) = false;
};

// Owned by the backend and its works.
struct Operations {
  const std::unique_ptr<PeerWatch> watch;
  uint64_t begun = 0;  // operations, of which
  uint64_t ended = 0;  // so many were waited for to a good end
};

class WatchedWork final : public c10d::Work {
 public:
  WatchedWork(std::shared_ptr<Operations> operations, int rank, c10d::OpType type, WorkPtr gloo)
      : c10d::Work(rank, type),
        operations_(std::move(operations)),
        number_(++operations_->begun),
        gloo_(std::move(gloo)) {}

  bool isCompleted() override { return gloo_->isCompleted(); }
  Tensors result() override { return gloo_->result(); }

  bool wait(std::chrono::milliseconds timeout) override {
    if (!gloo_->isCompleted()) AwaitEndOrLoss();
    gloo_->wait(timeout);
    if (!std::exchange(waited_, true)) operations_->ended += 1;
    return true;
  }

 private:
  void AwaitEndOrLoss() {
    const auto ending = std::make_shared<Ending>();
    gloo_->getFuture()->addCallback([ending](c10::ivalue::Future&) { ending->Set(); },
                                    /*uses_future=*/false);
    while (!ending->WaitFor(kSlice)) {
      const absl::Status peers = operations_->watch->Check(number_);
      TORCH_CHECK_WITH(DistBackendError, peers.ok(), std::string(peers.message()));
    }
  }

  const std::shared_ptr<Operations> operations_;
  const uint64_t number_;
  const WorkPtr gloo_;
  bool waited_ = false;
};

class WatchedGloo final : public c10d::Backend {
 public:
  WatchedGloo(c10::intrusive_ptr<c10d::Backend> gloo, std::unique_ptr<PeerWatch> watch)
      : c10d::Backend(gloo->getRank(), gloo->getSize()),
        gloo_(std::move(gloo)),
        operations_(new Operations{std::move(watch)}) {}

  ~WatchedGloo() override {
    if (operations_->ended < operations_->begun) {
      (void)gloo_.release();  // its destructor would wait for what may never end
    } else {
      gloo_.reset();
    }
    operations_->watch->Leave(operations_->ended);
  }

  const std::string getBackendName() const override { return gloo_->getBackendName(); }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return Watch(c10d::OpType::ALLREDUCE, gloo_->allreduce(tensors, options));
  }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return Watch(c10d::OpType::BROADCAST, gloo_->broadcast(tensors, options));
  }

 private:
  WorkPtr Watch(c10d::OpType type, WorkPtr gloo) {
    return c10::make_intrusive<WatchedWork>(operations_, rank_, type, std::move(gloo));
  }

  c10::intrusive_ptr<c10d::Backend> gloo_;
  const std::shared_ptr<Operations> operations_;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> MakeWatchedGloo(c10::intrusive_ptr<c10d::Backend> gloo,
                                                  std::unique_ptr<PeerWatch> watch) {
  return c10::make_intrusive<WatchedGloo>(std::move(gloo), std::move(watch));
}

}  // namespace muster::worker
