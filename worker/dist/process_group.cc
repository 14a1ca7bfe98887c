// A c10d process group behind our interface: Gloo on the CPU, NCCL on CUDA.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#ifdef MUSTER_WITH_CUDA
#include <c10/cuda/CUDAFunctions.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

#include <cstdlib>
#include <cstring>

#include "worker/dist/c10d_store.h"
#include "worker/dist/collectives.h"
#include "worker/dist/ddp.h"

namespace muster::worker {
namespace {

using c10d::ProcessGroup;

class C10dCollectives final : public Collectives {
 public:
  C10dCollectives(c10::intrusive_ptr<ProcessGroup> group, at::Device device)
      : group_(std::move(group)), device_(device) {}

  int rank() const override { return group_->getRank(); }
  int world_size() const override { return group_->getSize(); }

  void AllReduceSum(at::Tensor& tensor) override {
    std::vector<at::Tensor> tensors = {tensor};
    group_->allreduce(tensors)->wait();
  }

  void Broadcast(at::Tensor& tensor, int root) override {
    std::vector<at::Tensor> tensors = {tensor};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    group_->broadcast(tensors, options)->wait();
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
    return MakeDdp(*group_, parameters, options);
  }

 private:
  const c10::intrusive_ptr<ProcessGroup> group_;
  const at::Device device_;
};

void AddGloo(ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store,
             const CollectivesOptions& options) {
  auto gloo = c10d::ProcessGroupGloo::Options::create(absl::ToChronoMilliseconds(options.timeout));
  gloo->devices.push_back(
      c10d::ProcessGroupGloo::createDeviceForHostname(options.advertise_address));
  auto backend =
      c10::make_intrusive<c10d::ProcessGroupGloo>(store, options.rank, options.world_size, gloo);
  backend->setSequenceNumberForGroup();
  group.setBackend(c10::DeviceType::CPU, ProcessGroup::BackendType::GLOO,
                   c10::static_intrusive_pointer_cast<c10d::Backend>(backend));
  group.setDefaultBackend(ProcessGroup::BackendType::GLOO);
}

#ifdef MUSTER_WITH_CUDA
void AddNccl(ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store,
             const CollectivesOptions& options) {
  auto nccl = c10d::ProcessGroupNCCL::Options::create();
  nccl->timeout = absl::ToChronoMilliseconds(options.timeout);
  auto backend =
      c10::make_intrusive<c10d::ProcessGroupNCCL>(store, options.rank, options.world_size, nccl);
  backend->setSequenceNumberForGroup();
  group.setBackend(c10::DeviceType::CUDA, ProcessGroup::BackendType::NCCL,
                   c10::static_intrusive_pointer_cast<c10d::Backend>(backend));
  group.setDefaultBackend(ProcessGroup::BackendType::NCCL);
}
#endif

}  // namespace

std::unique_ptr<Collectives> MakeCollectives(std::shared_ptr<KeyValue> key_value,
                                             const CollectivesOptions& options) {
  auto store = c10::make_intrusive<C10dStore>(std::move(key_value), options.prefix,
                                              absl::ToChronoMilliseconds(options.timeout));
  auto group = c10::make_intrusive<ProcessGroup>(store, options.rank, options.world_size);
  at::Device device(at::kCPU);
  if (options.gpu < 0) {
    AddGloo(*group, store, options);
  } else {
#ifdef MUSTER_WITH_CUDA
    device = at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(options.gpu));
    AddNccl(*group, store, options);
#else
    TORCH_CHECK_WITH(NotImplementedError, false, "this muster-trainer was built without CUDA");
#endif
  }
  group->setGroupName(options.prefix.empty() ? "gang" : options.prefix);
  return std::make_unique<C10dCollectives>(std::move(group), device);
}

}  // namespace muster::worker
