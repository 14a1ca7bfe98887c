#include "worker/trainer/tools/model_report.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

namespace muster::worker {
namespace {

int64_t BytesOf(const at::Tensor& tensor) {
  return tensor.numel() * static_cast<int64_t>(tensor.element_size());
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

}  // namespace

ModelReport DescribeModel(std::string name, const Model& model, const Optimizer& optimizer) {
  ModelReport report;
  report.name = std::move(name);
  report.parameters = model.ParameterCount();
  std::set<std::string> trained;
  for (const ModelTensor& entry : model.parameters()) {
    trained.insert(entry.name);
    report.gradient_bytes += BytesOf(entry.tensor);
  }
  for (const ModelTensor& entry : model.state()) {
    report.weight_bytes += BytesOf(entry.tensor);
    report.tensors.push_back({entry.name, entry.tensor.sizes().vec(),
                              absl::AsciiStrToLower(c10::toString(entry.tensor.scalar_type())),
                              entry.tensor.numel(), trained.count(entry.name) == 1});
  }
  for (const OptimizerTensor& entry : optimizer.state()) {
    report.optimizer_bytes += BytesOf(entry.tensor);
  }
  return report;
}

std::string ModelReportText(const ModelReport& report) {
  size_t name_width = 6, shape_width = 5;
  for (const ModelReport::Tensor& tensor : report.tensors) {
    name_width = std::max(name_width, tensor.name.size());
    shape_width = std::max(shape_width, ShapeText(tensor.shape).size());
  }
  std::string text = absl::StrFormat("%-*s  %-*s  %14s  %s\n", name_width, "TENSOR", shape_width,
                                     "SHAPE", "ELEMENTS", "KIND");
  for (const ModelReport::Tensor& tensor : report.tensors) {
    absl::StrAppendFormat(&text, "%-*s  %-*s  %14s  %s\n", name_width, tensor.name, shape_width,
                          ShapeText(tensor.shape), CountText(tensor.elements),
                          tensor.trained ? "parameter" : "buffer");
  }
  absl::StrAppend(&text, "\n", report.name, ": ", CountText(report.parameters), " parameters\n",
                  "memory between steps: ",
                  BytesText(report.weight_bytes + report.gradient_bytes + report.optimizer_bytes),
                  " (weights ", BytesText(report.weight_bytes), ", gradients ",
                  BytesText(report.gradient_bytes), ", optimizer ",
                  BytesText(report.optimizer_bytes), ")\n");
  return text;
}

std::string ModelReportJson(const ModelReport& report) {
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const ModelReport::Tensor& tensor : report.tensors) {
    tensors.push_back({{"name", tensor.name},
                       {"shape", tensor.shape},
                       {"type", tensor.type},
                       {"elements", tensor.elements},
                       {"kind", tensor.trained ? "parameter" : "buffer"}});
  }
  const nlohmann::ordered_json json = {{"name", report.name},
                                       {"parameters", report.parameters},
                                       {"weight_bytes", report.weight_bytes},
                                       {"gradient_bytes", report.gradient_bytes},
                                       {"optimizer_bytes", report.optimizer_bytes},
                                       {"tensors", std::move(tensors)}};
  return json.dump();
}

std::string BytesText(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return unit == 0 ? absl::StrCat(bytes, " B") : absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string CountText(int64_t count) {
  std::string text = absl::StrCat(count);
  for (int64_t at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<size_t>(at), 1, ',');
  }
  return text;
}

}  // namespace muster::worker
