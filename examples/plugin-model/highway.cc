// A plug-in with one network, `highway` (Srivastava et al. 2015): layers that learn how much of
// their input to let through. Build it against the torch that muster-trainer runs with:
//
//   TORCH=$(python -c 'import torch, os; print(os.path.dirname(torch.__file__))')
//   g++ -std=c++20 -O2 -fPIC -shared -o libhighway.so highway.cc -I MUSTER_SOURCE
//       -isystem $TORCH/include -isystem $TORCH/include/torch/csrc/api/include -L $TORCH/lib
//       -ltorch_cpu -lc10
//
// and name it in a job, for workers that run with --allow-commands:
//
//   model: {plugin: {path: /shared/libhighway.so, options: {layers: "4", width: "64"}}}
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>

#include <cmath>
#include <cstdlib>
#include <stdexcept>

#include "worker/models/foreign/plugin.h"

namespace {

using muster::plugin::Model;
using muster::plugin::Request;

class Highway final : public Model {
 public:
  explicit Highway(const Request& request)
      : device_(request.device), generator_(at::detail::createCPUGenerator(request.seed)) {
    int64_t features = 1;
    for (const int64_t extent : request.input_shape) features *= extent;
    const int64_t width = Number(request, "width", 64);
    const int64_t layers = Number(request, "layers", 4);
    first_ = AddLinear("first", features, width, 0);
    for (int64_t i = 0; i < layers; ++i) {
      const std::string name = "layers." + std::to_string(i);
      // A gate that begins nearly closed lets its input through.
      layers_.push_back({AddLinear(name + ".change", width, width, 0),
                         AddLinear(name + ".gate", width, width, -2)});
    }
    last_ = AddLinear("last", width, request.classes, 0);
  }

  at::Tensor Forward(const at::Tensor& inputs, bool /*training*/) override {
    at::Tensor x = at::relu(Run(first_, inputs.flatten(1)));
    for (const auto& [change, gate] : layers_) {
      const at::Tensor open = at::sigmoid(Run(gate, x));
      x = at::lerp(x, at::relu(Run(change, x)), open);
    }
    return Run(last_, x);
  }

 private:
  struct Linear {
    at::Tensor weight, bias;
  };

  static int64_t Number(const Request& request, const std::string& name, int64_t otherwise) {
    const auto it = request.options.find(name);
    if (it == request.options.end()) return otherwise;
    const int64_t value = std::atoll(it->second.c_str());
    if (value < 1 || value > 4096) {
      throw std::invalid_argument("option " + name + " must be from 1 to 4096; got " + it->second);
    }
    return value;
  }

  static at::Tensor Run(const Linear& layer, const at::Tensor& x) {
    return at::linear(x, layer.weight, layer.bias);
  }

  Linear AddLinear(const std::string& name, int64_t in, int64_t out, double bias) {
    const double bound = 1 / std::sqrt(static_cast<double>(in));
    Linear layer;
    layer.weight = at::empty({out, in}).uniform_(-bound, bound, generator_).to(device_);
    layer.bias = at::full({out}, bias, at::kFloat).to(device_);
    parameters.push_back({name + ".weight", layer.weight});
    parameters.push_back({name + ".bias", layer.bias});
    return layer;
  }

  const at::Device device_;
  at::Generator generator_;
  Linear first_, last_;
  std::vector<std::pair<Linear, Linear>> layers_;  // change and gate
};

void Register(muster::plugin::Registry& registry) {
  registry.models["highway"] = [](const Request& request) -> std::unique_ptr<Model> {
    return std::make_unique<Highway>(request);
  };
}

}  // namespace

MUSTER_PLUGIN(Register);
