#include "worker/dist/gang.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>

#include "common/base/status_macros.h"
#include "worker/dist/process_group.h"
#include "worker/dist/strategy/ddp.h"

namespace muster::worker {
namespace {

at::Device DeviceOf(const CollectivesOptions& options) {
  return options.gpu < 0 ? at::Device(at::kCPU)
                         : at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(options.gpu));
}

}  // namespace

Gang::Gang() : group_(std::make_unique<ProcessGroup>()) {}
Gang::~Gang() = default;

absl::StatusOr<std::unique_ptr<Gang>> Gang::Form(std::shared_ptr<KeyValue> store,
                                                 const CollectivesOptions& options) {
  auto gang = std::unique_ptr<Gang>(new Gang());
  MUSTER_RETURN_IF_ERROR(gang->Reform(std::move(store), options));
  return gang;
}

std::unique_ptr<Gang> Gang::OfOne() { return *Form(/*store=*/nullptr, {}); }

void Gang::End() {
  *group_ = ProcessGroup{.transport = "none", .number = group_->number + 1, .ended = true};
}

absl::Status Gang::Reform(std::shared_ptr<KeyValue> store, const CollectivesOptions& options) {
  End();
  MUSTER_ASSIGN_OR_RETURN(ProcessGroup made, MakeProcessGroup(store, options));
  made.number = group_->number + 1;
  *group_ = std::move(made);
  options_ = options;
  return absl::OkStatus();
}

std::string Gang::transport() const { return group_->transport; }

void Gang::Check() const {
  if (group_->device != nullptr) group_->device->Check();
}

void Gang::AllReduceSum(at::Tensor& tensor) {
  if (group_->IsAlone()) return;
  std::vector<at::Tensor> tensors = {tensor};
  group_->backend->allreduce(tensors, c10d::AllreduceOptions())->wait();
}

void Gang::Broadcast(at::Tensor& tensor, int root) { group_->Broadcast(tensor, root); }

void Gang::BroadcastText(std::string& text, int root) {
  if (group_->IsAlone()) return;
  const at::Device device = DeviceOf(options_);
  at::Tensor size = at::empty({1}, at::kLong);
  size.data_ptr<int64_t>()[0] = static_cast<int64_t>(text.size());
  size = size.to(device);
  Broadcast(size, root);
  const int64_t bytes = size.item<int64_t>();
  Check();
  if (bytes == 0) {
    text.clear();
    return;
  }
  at::Tensor host = at::empty({bytes}, at::kByte);
  if (rank() == root) std::memcpy(host.data_ptr(), text.data(), text.size());
  at::Tensor payload = host.to(device);
  Broadcast(payload, root);
  host = payload.cpu();
  Check();
  text.assign(static_cast<const char*>(host.data_ptr()), static_cast<size_t>(bytes));
}

void Gang::Barrier() {
  if (group_->IsAlone()) return;
  at::Tensor token =
      at::empty({1}, at::TensorOptions(at::kFloat).device(DeviceOf(options_))).zero_();
  AllReduceSum(token);
  token.item<float>();  // waits for the device: a barrier that the host has not passed is none
  Check();
}

std::unique_ptr<Strategy> Gang::MakeStrategy(const std::vector<at::Tensor>& parameters,
                                             const StrategyOptions& options) const {
  return MakeDdp(*group_, parameters, {options, options_.compression, options_.static_graph});
}

int64_t PlannedBufferBytes(const std::vector<at::Tensor>& parameters,
                           const CollectivesOptions& options) {
  if (options.world_size == 1) return 0;
  const bool in_place = options.gpu < 0 && options.transport != Transport::kGloo;
  return DdpBufferBytes(parameters, options.compression, in_place);
}

}  // namespace muster::worker
