#include "worker/models/foreign/torchscript.h"

#include <c10/util/Exception.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <optional>
#include <set>
#include <utility>

namespace muster::worker {
namespace {

class TorchScript final : public Model {
 public:
  TorchScript(torch::jit::Module module, const ModelContext& context) : module_(std::move(module)) {
    std::set<const c10::TensorImpl*> seen;
    for (const auto& parameter : module_.named_parameters(/*recurse=*/true)) {
      if (!seen.insert(parameter.value.unsafeGetTensorImpl()).second) continue;
      if (parameter.value.requires_grad()) {
        AddParameter(parameter.name, parameter.value, context.device);
      } else {
        AddBuffer(parameter.name, parameter.value, context.device);
      }
    }
    for (const auto& buffer : module_.named_buffers(/*recurse=*/true)) {
      if (!seen.insert(buffer.value.unsafeGetTensorImpl()).second) continue;
      AddBuffer(buffer.name, buffer.value, context.device);
    }
    JoinBuffers();
  }

  ModelOutput Forward(const at::Tensor& inputs) override {
    if (mode_ != training()) {
      mode_ = training();
      module_.train(training());
    }
    const torch::jit::GraphOptimizerEnabledGuard as_written(false);
    const c10::IValue output = module_.forward({inputs});
    TORCH_CHECK(output.isTensor(), "the TorchScript network gives a ", output.tagKind(),
                ", want one tensor of logits");
    return {output.toTensor()};
  }

 private:
  torch::jit::Module module_;
  std::optional<bool> mode_;  // the file may say either
};

}  // namespace

std::unique_ptr<Model> MakeTorchScript(std::istream& file, const ModelContext& context) {
  return std::make_unique<TorchScript>(torch::jit::load(file, context.device), context);
}

}  // namespace muster::worker
