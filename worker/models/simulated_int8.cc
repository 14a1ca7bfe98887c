#include "worker/models/simulated_int8.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <c10/util/Exception.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "worker/models/base/trace.h"

namespace muster::worker {
namespace {

using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

constexpr int64_t kLargestWeight = 127;  // -128 is left out, so that the range is symmetric
constexpr int64_t kLargestInput = 255;

// Where a kind of operator has its input and its weight.
struct LayerKind {
  const char* name;
  size_t input, weight;
  int64_t channel_axis;  // of the weight
};
constexpr LayerKind kLayerKinds[] = {
    {"aten::linear", 0, 1, 0},
    {"aten::conv2d", 0, 1, 0},
    {"aten::_convolution", 0, 1, 0},
    {"aten::addmm", 1, 2, 1},  // GPT-2's weights are [in, out]
};

const LayerKind* KindOf(const Node& node) {
  for (const LayerKind& kind : kLayerKinds) {
    if (node.kind() == c10::Symbol::fromQualString(kind.name)) return &kind;
  }
  return nullptr;
}

// "layer1.0.conv1.weight" of a chain of attributes that begins at the module; empty for other
// values.
std::string ParameterName(const Value& value) {
  if (value.node()->kind() != c10::prim::GetAttr) return "";
  const std::string& name = value.node()->s(c10::attr::name);
  const Value& owner = *value.node()->input();
  if (owner.node()->kind() != c10::prim::GetAttr) return name;
  return ParameterName(owner) + "." + name;
}

struct Site {
  Node* node;
  const LayerKind* kind;
  std::string weight;
};

// The layers of a graph, in its order; the same for each copy of it.
std::vector<Site> Sites(Graph& graph) {
  std::vector<Site> sites;
  for (Node* node : graph.nodes()) {
    const LayerKind* kind = KindOf(*node);
    if (kind == nullptr) continue;
    std::string weight = ParameterName(*node->input(kind->weight));
    if (!weight.empty()) sites.push_back({node, kind, std::move(weight)});
  }
  return sites;
}

Value* Before(Node& site, const char* op, const std::vector<Value*>& inputs) {
  Graph& graph = *site.owningGraph();
  Node* node = graph.create(c10::Symbol::fromQualString(op), inputs);
  node->insertBefore(&site);
  return node->output();
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
};

class Simulation final : public SimulatedInt8 {
 public:
  Simulation(Model& model, const at::Tensor& example)
      : model_(model), module_(TraceModel(model, example)) {
    const std::shared_ptr<Graph> traced = module_.get_method("forward").graph();
    // As the trace runs by itself, without the executor's optimisations: what is compared is the
    // rounding alone.
    plain_ = traced->copy();
    measuring_ = traced->copy();
    for (const Site& site : Sites(*measuring_)) {
      Value* input = site.node->input(site.kind->input);
      for (const char* op : {"aten::min", "aten::max"})
        measuring_->registerOutput(Before(*site.node, op, {input}));
    }
    ranges_.resize(Sites(*plain_).size());
    TORCH_CHECK(!ranges_.empty(), "the network has no linear or convolution layer with a weight");
    executor_ = torch::jit::GraphExecutor(plain_, "simulated_int8");
  }

  ModelOutput Forward(const at::Tensor& inputs) override {
    return {Run(executor_, inputs).front().toTensor()};
  }

  void Calibrate(const at::Tensor& inputs) override {
    torch::jit::GraphExecutor executor(measuring_, "calibrate_int8");
    const torch::jit::Stack outputs = Run(executor, inputs);
    for (size_t i = 0; i < ranges_.size(); ++i) {
      ranges_[i].low = std::min(ranges_[i].low, outputs[1 + 2 * i].toTensor().item<double>());
      ranges_[i].high = std::max(ranges_[i].high, outputs[2 + 2 * i].toTensor().item<double>());
    }
  }

  void Round() override {
    const at::NoGradGuard no_grad;
    const std::vector<Site> sites = Sites(*plain_);
    std::map<std::string, Range> by_weight;
    for (size_t i = 0; i < sites.size(); ++i) {
      Range& range = by_weight[sites[i].weight];
      range.low = std::min(range.low, ranges_[i].low);
      range.high = std::max(range.high, ranges_[i].high);
    }
    for (const Site& site : sites) {
      const Range& range = by_weight.at(site.weight);
      const InputScale input = ScaleOfRange(range.low, range.high);
      RoundInput(site, input);
      const bool done = std::any_of(layers_.begin(), layers_.end(), [&](const Int8Layer& layer) {
        return layer.weight == site.weight;
      });
      if (!done) layers_.push_back({site.weight, RoundWeight(site), input});
    }
    executor_ = torch::jit::GraphExecutor(plain_, "simulated_int8");
  }

  const std::vector<Int8Layer>& layers() const override { return layers_; }

 private:
  torch::jit::Stack Run(torch::jit::GraphExecutor& executor, const at::Tensor& inputs) const {
    const torch::jit::GraphOptimizerEnabledGuard as_written(false);
    torch::jit::Stack stack = {module_._ivalue(), inputs};
    executor.run(stack);
    return stack;
  }

  void RoundInput(const Site& site, const InputScale& input) {
    Graph& graph = *site.node->owningGraph();
    const auto constant = [&](const c10::IValue& value) {
      const torch::jit::WithInsertPoint here(site.node);
      return graph.insertConstant(value);
    };
    site.node->replaceInput(
        site.kind->input,
        Before(*site.node, "aten::fake_quantize_per_tensor_affine",
               {site.node->input(site.kind->input), constant(input.scale),
                constant(input.zero_point), constant(int64_t{0}), constant(kLargestInput)}));
  }

  QuantizedWeight RoundWeight(const Site& site) {
    for (const ModelTensor& entry : model_.parameters()) {
      if (entry.name != site.weight) continue;
      QuantizedWeight quantized = QuantizeWeight(entry.tensor, site.kind->channel_axis);
      at::Tensor(entry.tensor).copy_(Dequantize(quantized));
      return quantized;
    }
    TORCH_CHECK(false, "the trace has a weight `", site.weight, "` that the network lacks");
  }

  Model& model_;
  torch::jit::Module module_;
  std::shared_ptr<Graph> plain_, measuring_;
  torch::jit::GraphExecutor executor_;
  std::vector<Range> ranges_;  // of each site's inputs
  std::vector<Int8Layer> layers_;
};

}  // namespace

QuantizedWeight QuantizeWeight(const at::Tensor& weight, int64_t channel_axis) {
  const at::Tensor source = weight.detach();
  std::vector<int64_t> others;
  for (int64_t axis = 0; axis < source.dim(); ++axis) {
    if (axis != channel_axis) others.push_back(axis);
  }
  const at::Tensor largest = source.abs().amax(others, /*keepdim=*/true);
  const at::Tensor scales = at::where(
      largest.gt(0), largest.div(static_cast<double>(kLargestWeight)), at::ones_like(largest));
  const at::Tensor values =
      source.div(scales).round().clamp(-kLargestWeight, kLargestWeight).to(at::kChar);
  return {values, scales};
}

at::Tensor Dequantize(const QuantizedWeight& weight) {
  return weight.values.to(at::kFloat).mul(weight.scales);
}

InputScale ScaleOfRange(double low, double high) {
  low = std::min(low, 0.0);
  high = std::max(high, 0.0);
  if (high == low) return {};
  // As float: the operator computes with it so, and the file holds it so.
  const double scale = static_cast<float>((high - low) / static_cast<double>(kLargestInput));
  return {scale, static_cast<int64_t>(-low / scale + 0.5)};
}

std::unique_ptr<SimulatedInt8> SimulatedInt8::Make(Model& model, const at::Tensor& example) {
  return std::make_unique<Simulation>(model, example);
}

}  // namespace muster::worker
