// A plug-in network that writes down which samples it was trained on: the first feature of each
// sample is its id, and the small network behind learns from the others. So a test sees what
// reached the model of a real trainer, whatever sampler, loader and resume believe.
//
//   model: {plugin: {path: ..., options: {record: /tmp/samples, pause_ms: "20"}}}
//
// One line for each pass in training mode, in a file that all ranks append to:
//   PID WEIGHTS ID ID ID ...
// where WEIGHTS is a hash of all parameters before the pass. The trainer's memory rehearsal runs
// passes as well, but only a step changes the weights: of passes that follow one another with the
// same weights, the last one is the step's.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "worker/models/foreign/plugin.h"

namespace {

using muster::plugin::Model;
using muster::plugin::Request;

constexpr int64_t kWidth = 16;

std::string Option(const Request& request, const std::string& name) {
  const auto found = request.options.find(name);
  if (found == request.options.end()) throw std::invalid_argument("option " + name + " is missing");
  return found->second;
}

class SampleRecorder final : public Model {
 public:
  explicit SampleRecorder(const Request& request)
      : file_(::open(Option(request, "record").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                     0600)),
        pause_us_(static_cast<useconds_t>(1000 * std::atoi(Option(request, "pause_ms").c_str()))),
        generator_(at::detail::createCPUGenerator(request.seed)) {
    if (file_ < 0) throw std::invalid_argument("the record cannot be opened");
    const int64_t features = request.input_shape.at(0) - 1;
    first_ = AddLinear("first", features, kWidth);
    last_ = AddLinear("last", kWidth, request.classes);
  }
  ~SampleRecorder() override { ::close(file_); }

  at::Tensor Forward(const at::Tensor& inputs, bool training) override {
    if (training) {
      Record(inputs);
      ::usleep(pause_us_);
    }
    const at::Tensor hidden = at::tanh(Run(first_, inputs.narrow(1, 1, inputs.size(1) - 1)));
    return Run(last_, hidden);
  }

 private:
  struct Linear {
    at::Tensor weight, bias;
  };

  static at::Tensor Run(const Linear& layer, const at::Tensor& x) {
    return at::linear(x, layer.weight, layer.bias);
  }

  Linear AddLinear(const std::string& name, int64_t in, int64_t out) {
    const double bound = 1 / std::sqrt(static_cast<double>(in));
    Linear layer;
    layer.weight = at::empty({out, in}).uniform_(-bound, bound, generator_);
    layer.bias = at::zeros({out});
    parameters.push_back({name + ".weight", layer.weight});
    parameters.push_back({name + ".bias", layer.bias});
    return layer;
  }

  uint64_t HashWeights() const {
    uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    for (const auto& entry : parameters) {
      const at::Tensor plain = entry.tensor.detach().contiguous();
      const auto* bytes = static_cast<const uint8_t*>(plain.const_data_ptr());
      for (size_t i = 0; i < plain.nbytes(); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3;
    }
    return hash;
  }

  // One write, so that the lines of several ranks do not mix.
  void Record(const at::Tensor& inputs) {
    std::string line = std::to_string(::getpid()) + " " + std::to_string(HashWeights());
    const at::Tensor ids = inputs.select(1, 0).contiguous();
    const float* id = ids.const_data_ptr<float>();
    for (int64_t i = 0; i < ids.numel(); ++i) line += " " + std::to_string(std::lround(id[i]));
    line += "\n";
    if (::write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
      throw std::runtime_error("the record cannot be written");
  }

  const int file_;
  const useconds_t pause_us_;
  at::Generator generator_;
  Linear first_, last_;
};

void Register(muster::plugin::Registry& registry) {
  registry.models["recorder"] = [](const Request& request) -> std::unique_ptr<Model> {
    return std::make_unique<SampleRecorder>(request);
  };
}

}  // namespace

MUSTER_PLUGIN(Register);
