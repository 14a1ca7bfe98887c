#include "worker/models/base/trace.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muster::worker {
namespace {

using torch::jit::Module;

// Submodules by the dotted names of their tensors.
struct Branch {
  std::map<std::string, Branch> branches;
  std::vector<std::pair<std::string, at::Tensor>> parameters, buffers;
};

void Add(Branch& root, absl::string_view name, const at::Tensor& tensor, bool parameter) {
  Branch* branch = &root;
  for (size_t dot; (dot = name.find('.')) != absl::string_view::npos; name.remove_prefix(dot + 1)) {
    branch = &branch->branches[std::string(name.substr(0, dot))];
  }
  (parameter ? branch->parameters : branch->buffers).emplace_back(std::string(name), tensor);
}

Module ToModule(const Branch& branch, const std::shared_ptr<torch::jit::CompilationUnit>& unit) {
  // torch gives each class after the first a name of its own.
  Module module(c10::QualifiedName("__torch__.muster.Network"), unit, /*shouldMangle=*/true);
  module.register_attribute("training", c10::BoolType::get(), false);
  for (const auto& [name, tensor] : branch.parameters) {
    module.register_parameter(name, tensor, /*is_buffer=*/false);
  }
  for (const auto& [name, tensor] : branch.buffers) module.register_buffer(name, tensor);
  for (const auto& [name, below] : branch.branches)
    module.register_module(name, ToModule(below, unit));
  return module;
}

}  // namespace

torch::jit::Module TraceModel(Model& model, const at::Tensor& example) {
  model.SetTraining(false);
  Branch root;
  std::set<std::string> parameters;
  for (const ModelTensor& entry : model.parameters()) parameters.insert(entry.name);
  for (const ModelTensor& entry : model.state())
    Add(root, entry.name, entry.tensor, parameters.contains(entry.name));
  Module module = ToModule(root, std::make_shared<torch::jit::CompilationUnit>());

  const at::NoGradGuard no_grad;
  const auto forward = [&model](torch::jit::Stack inputs) {
    return torch::jit::Stack{model.Forward(inputs.front().toTensor()).values};
  };
  const auto name_of = [](const at::Tensor&) { return std::string(); };
  const auto [state, outputs] =
      torch::jit::tracer::trace({example}, forward, name_of, /*strict=*/true,
                                /*force_outplace=*/false, &module, {"inputs"});
  const c10::QualifiedName name(*module.type()->name(), "forward");
  module.type()->addMethod(
      module._ivalue()->compilation_unit()->create_function(name, state->graph));
  return module;
}

}  // namespace muster::worker
