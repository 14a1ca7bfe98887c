// What a plug-in is written against: a shared library that brings networks of its own into the
// trainer. This header and torch are all that it needs; examples/plugin-model is a whole one.
//
// The library ends with MUSTER_PLUGIN(Register), where Register adds its networks to the registry.
// The trainer loads it where its agent was started with --allow-commands, and refuses one that was
// built against another version of this header or of torch. It stays loaded until the process ends.
// Anything that a plug-in throws ends the run, and its text says why.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/version.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

// Raised with every change below.
#define MUSTER_PLUGIN_API_VERSION 1

namespace muster::plugin {

struct NamedTensor {
  std::string name;  // part of a checkpoint's file
  at::Tensor tensor;
};

// A network. One thread calls it.
class Model {
 public:
  virtual ~Model() = default;

  // inputs: [B, ...input_shape], float, or int64 for tokens. Gives logits: [B, classes], or for
  // tokens [B, T, classes]. `training` is false in evaluation.
  virtual at::Tensor Forward(const at::Tensor& inputs, bool training) = 0;

  // For the factory to fill, with tensors on the request's device; afterwards the trainer changes
  // them in place and nobody replaces them. Parameters are floating-point leaves: the trainer makes
  // them require a gradient. Buffers are state that is kept but not trained.
  std::vector<NamedTensor> parameters;
  std::vector<NamedTensor> buffers;
};

// What a network is made for.
struct Request {
  std::vector<int64_t> input_shape;  // of one sample
  int64_t classes = 0;               // for tokens: the vocabulary
  bool tokens = false;
  uint64_t seed = 0;  // draw initial weights from it on the CPU: all ranks must get the same
  at::Device device = at::kCPU;
  std::map<std::string, std::string> options;  // train.model.plugin.options
};

// Throws, e.g. std::invalid_argument, when the request cannot be met.
using Factory = std::unique_ptr<Model> (*)(const Request& request);

struct Registry {
  std::map<std::string, Factory> models;  // by the name that train.model.plugin.model gives
};

// What the trainer reads before it believes anything else of the library.
struct Info {
  uint32_t api_version;
  const char* torch_version;
};

}  // namespace muster::plugin

#define MUSTER_PLUGIN(register_function)                                                 \
  extern "C" __attribute__((visibility("default"))) const muster::plugin::Info*          \
  muster_plugin_info() {                                                                 \
    static const muster::plugin::Info info = {MUSTER_PLUGIN_API_VERSION, TORCH_VERSION}; \
    return &info;                                                                        \
  }                                                                                      \
  extern "C" __attribute__((visibility("default"))) void muster_plugin_register(         \
      muster::plugin::Registry& registry) {                                              \
    register_function(registry);                                                         \
  }                                                                                      \
  static_assert(true, "a semicolon follows")
