#include "worker/models/foreign/plugin_loader.h"

#include <dlfcn.h>

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "worker/models/foreign/plugin.h"

namespace muster::worker {
namespace {

class PluginModel final : public Model {
 public:
  PluginModel(std::unique_ptr<plugin::Model> model, at::Device device) : model_(std::move(model)) {
    for (const plugin::NamedTensor& entry : model_->parameters) {
      AddParameter(entry.name, entry.tensor, device);
    }
    for (const plugin::NamedTensor& entry : model_->buffers) {
      AddBuffer(entry.name, entry.tensor, device);
    }
    JoinBuffers();
  }

  ModelOutput Forward(const at::Tensor& inputs) override {
    return {model_->Forward(inputs, training())};
  }

 private:
  const std::unique_ptr<plugin::Model> model_;
};

absl::Status CheckTensors(const plugin::Model& model, at::Device device) {
  if (model.parameters.empty()) return absl::InvalidArgumentError("has no parameters");
  std::set<std::string> names;
  const auto check = [&](const plugin::NamedTensor& entry, bool parameter) {
    const auto bad = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", entry.name, "' ", what));
    };
    if (entry.name.empty() || !names.insert(entry.name).second)
      return bad("has no name of its own");
    if (!entry.tensor.defined()) return bad("is undefined");
    // An index may be left out on either side.
    if (entry.tensor.device().type() != device.type()) {
      return bad(absl::StrCat("is on ", entry.tensor.device().str(), ", want ", device.str()));
    }
    if (parameter && !(entry.tensor.is_floating_point() && entry.tensor.is_leaf())) {
      return bad("is no floating-point leaf");
    }
    return absl::OkStatus();
  };
  for (const auto& entry : model.parameters) MUSTER_RETURN_IF_ERROR(check(entry, true));
  for (const auto& entry : model.buffers) MUSTER_RETURN_IF_ERROR(check(entry, false));
  return absl::OkStatus();
}

absl::StatusOr<plugin::Factory> FactoryOf(const plugin::Registry& registry,
                                          const std::string& name) {
  std::vector<std::string> names;
  for (const auto& [known, factory] : registry.models) names.push_back(known);
  const auto it =
      name.empty() && names.size() == 1 ? registry.models.begin() : registry.models.find(name);
  if (it != registry.models.end() && it->second != nullptr) return it->second;
  return absl::InvalidArgumentError(absl::StrCat(
      name.empty() ? "train.model.plugin.model must say which" : "has no model '" + name + "'",
      " (it has ", names.empty() ? "none" : absl::StrJoin(names, ", "), ")"));
}

absl::Status CheckInfo(const plugin::Info& info) {
  if (info.api_version != MUSTER_PLUGIN_API_VERSION) {
    return absl::FailedPreconditionError(
        absl::StrCat("was built against version ", info.api_version,
                     " of worker/models/foreign/plugin.h, this trainer has version ",
                     MUSTER_PLUGIN_API_VERSION, ": build it anew"));
  }
  if (info.torch_version == nullptr || absl::string_view(info.torch_version) != TORCH_VERSION) {
    return absl::FailedPreconditionError(absl::StrCat(
        "was built against torch ", info.torch_version == nullptr ? "?" : info.torch_version,
        ", this trainer has torch ", TORCH_VERSION, ": build it anew"));
  }
  return absl::OkStatus();
}

// Symbols are resolved when they are used: a library of another torch must live long enough to say
// so. It is never unloaded, for networks hold code of it.
absl::StatusOr<plugin::Registry> Open(const std::string& path) {
  void* library = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return absl::InvalidArgumentError(::dlerror());
  const auto info =
      reinterpret_cast<const plugin::Info* (*)()>(::dlsym(library, "muster_plugin_info"));
  const auto add =
      reinterpret_cast<void (*)(plugin::Registry&)>(::dlsym(library, "muster_plugin_register"));
  if (info == nullptr || add == nullptr) {
    return absl::InvalidArgumentError(
        "is no plug-in of Muster: it does not end with MUSTER_PLUGIN "
        "(worker/models/foreign/plugin.h)");
  }
  MUSTER_RETURN_IF_ERROR(CheckInfo(*info()));
  plugin::Registry registry;
  add(registry);
  return registry;
}

absl::StatusOr<std::unique_ptr<Model>> Load(const PluginConfig& config,
                                            const ModelContext& context) {
  MUSTER_ASSIGN_OR_RETURN(const plugin::Registry registry, Open(config.path));
  MUSTER_ASSIGN_OR_RETURN(const plugin::Factory factory, FactoryOf(registry, config.model));
  plugin::Request request;
  request.input_shape = context.input_shape;
  request.classes = context.classes;
  request.tokens = config.tokens;
  request.seed = context.seed;
  request.device = context.device;
  request.options = config.options;
  std::unique_ptr<plugin::Model> model = factory(request);
  if (model == nullptr) return absl::InvalidArgumentError("made no model");
  MUSTER_RETURN_IF_ERROR(CheckTensors(*model, context.device));
  return std::make_unique<PluginModel>(std::move(model), context.device);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> LoadPlugin(const PluginConfig& config,
                                                  const ModelContext& context) {
  auto model = Load(config, context);
  if (model.ok()) return model;
  return absl::Status(model.status().code(),
                      absl::StrCat(config.path, ": ", model.status().message()));
}

}  // namespace muster::worker
