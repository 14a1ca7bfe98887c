// A c10d backend behind our interface: shared memory or Gloo on the CPU, NCCL on CUDA.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#ifdef MUSTER_WITH_CUDA
#include <c10/cuda/CUDAFunctions.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

#include <cstdlib>
#include <cstring>

#include "common/base/log.h"
#include "worker/dist/c10d_store.h"
#include "worker/dist/collectives.h"
#include "worker/dist/ddp.h"
#include "worker/dist/shared_memory_backend.h"

namespace muster::worker {
namespace {

using BackendPtr = c10::intrusive_ptr<c10d::Backend>;

// The backend is called directly: a ProcessGroup in between would send every call through the
// dispatcher.
class C10dCollectives final : public Collectives {
 public:
  C10dCollectives(BackendPtr backend, const CollectivesOptions& options)
      : backend_(std::move(backend)),
        options_(options),
        device_(options.gpu < 0
                    ? at::Device(at::kCPU)
                    : at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(options.gpu))),
        in_place_(backend_->getBackendName() == kSharedMemoryName) {}

  int rank() const override { return backend_->getRank(); }
  int world_size() const override { return backend_->getSize(); }
  std::string transport() const override { return backend_->getBackendName(); }

  void AllReduceSum(at::Tensor& tensor) override {
    std::vector<at::Tensor> tensors = {tensor};
    backend_->allreduce(tensors, c10d::AllreduceOptions())->wait();
  }

  void Broadcast(at::Tensor& tensor, int root) override {
    std::vector<at::Tensor> tensors = {tensor};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    backend_->broadcast(tensors, options)->wait();
  }

  void BroadcastText(std::string& text, int root) override {
    at::Tensor size = at::empty({1}, at::kLong);
    size.data_ptr<int64_t>()[0] = static_cast<int64_t>(text.size());
    size = size.to(device_);
    Broadcast(size, root);
    const int64_t bytes = size.item<int64_t>();
    if (bytes == 0) {
      text.clear();
      return;
    }
    at::Tensor host = at::empty({bytes}, at::kByte);
    if (rank() == root) std::memcpy(host.data_ptr(), text.data(), text.size());
    at::Tensor payload = host.to(device_);
    Broadcast(payload, root);
    host = payload.cpu();
    text.assign(static_cast<const char*>(host.data_ptr()), static_cast<size_t>(bytes));
  }

  void Barrier() override {
    at::Tensor token = at::empty({1}, at::TensorOptions(at::kFloat).device(device_)).zero_();
    AllReduceSum(token);
    token.item<float>();  // waits for the device: a barrier that the host has not passed is none
  }

  std::unique_ptr<GradientSync> MakeGradientSync(const std::vector<at::Tensor>& parameters,
                                                 const GradientSyncOptions& options) override {
    DdpOptions ddp;
    ddp.buckets = options;
    ddp.compression = options_.compression;
    ddp.static_graph = options_.static_graph;
    ddp.in_place = in_place_;
    return MakeDdp(*backend_, parameters, ddp);
  }

 private:
  const BackendPtr backend_;
  const CollectivesOptions options_;
  const at::Device device_;
  const bool in_place_;
};

BackendPtr MakeGloo(const c10::intrusive_ptr<c10d::Store>& store,
                    const CollectivesOptions& options) {
  auto gloo = c10d::ProcessGroupGloo::Options::create(absl::ToChronoMilliseconds(options.timeout));
  gloo->devices.push_back(
      c10d::ProcessGroupGloo::createDeviceForHostname(options.advertise_address));
  auto backend =
      c10::make_intrusive<c10d::ProcessGroupGloo>(store, options.rank, options.world_size, gloo);
  backend->setSequenceNumberForGroup();
  return backend;
}

#ifdef MUSTER_WITH_CUDA
BackendPtr MakeNccl(const c10::intrusive_ptr<c10d::Store>& store,
                    const CollectivesOptions& options) {
  auto nccl = c10d::ProcessGroupNCCL::Options::create();
  nccl->timeout = absl::ToChronoMilliseconds(options.timeout);
  auto backend =
      c10::make_intrusive<c10d::ProcessGroupNCCL>(store, options.rank, options.world_size, nccl);
  backend->setSequenceNumberForGroup();
  return backend;
}
#endif

// Null: the ranks cannot share memory, and need not.
BackendPtr TrySharedMemory(KeyValue& store, const CollectivesOptions& options) {
  SharedMemoryGangOptions gang_options;
  gang_options.rank = options.rank;
  gang_options.world_size = options.world_size;
  gang_options.timeout = options.timeout;
  gang_options.prefix = options.prefix;
  auto gang = SharedMemoryGang::Join(store, gang_options);
  if (gang.ok()) return MakeSharedMemoryBackend(*std::move(gang));
  TORCH_CHECK_WITH(DistStoreError, absl::IsFailedPrecondition(gang.status()),
                   "rendezvous store: ", gang.status().ToString());
  TORCH_CHECK(options.transport != Transport::kSharedMemory,
              "train.parallel.transport is shared_memory, but: ", gang.status().message());
  Log(LogLevel::kInfo, "shared_memory_unavailable",
      {{"transport", "gloo"}, {"reason", gang.status().message()}});
  return nullptr;
}

BackendPtr MakeBackend(std::shared_ptr<KeyValue> key_value, const CollectivesOptions& options) {
  auto store = c10::make_intrusive<C10dStore>(key_value, options.prefix,
                                              absl::ToChronoMilliseconds(options.timeout));
  if (options.gpu >= 0) {
#ifdef MUSTER_WITH_CUDA
    return MakeNccl(store, options);
#else
    TORCH_CHECK_WITH(NotImplementedError, false, "this muster-trainer was built without CUDA");
#endif
  }
  BackendPtr backend;
  if (options.transport != Transport::kGloo) backend = TrySharedMemory(*key_value, options);
  return backend != nullptr ? backend : MakeGloo(store, options);
}

}  // namespace

std::unique_ptr<Collectives> MakeCollectives(std::shared_ptr<KeyValue> key_value,
                                             const CollectivesOptions& options) {
  BackendPtr backend = MakeBackend(std::move(key_value), options);
  backend->setGroupUid(options.prefix.empty() ? "gang" : options.prefix);
  return std::make_unique<C10dCollectives>(std::move(backend), options);
}

}  // namespace muster::worker
