// What a network is made of and how much memory its training holds between two steps, for people
// and for machines. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/models/base/model.h"
#include "worker/optim/optimizer.h"

namespace muster::worker {

struct ModelReport {
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;
    std::string type;  // such as "float"
    int64_t elements = 0;
    bool trained = false;  // a parameter; else a buffer
  };
  std::string name;
  int64_t parameters = 0;
  std::vector<Tensor> tensors;  // in the order of the state dict
  int64_t weight_bytes = 0;     // parameters and buffers
  int64_t gradient_bytes = 0;
  int64_t optimizer_bytes = 0;
};

ModelReport DescribeModel(std::string name, const Model& model, const Optimizer& optimizer);

// A table with a line for each tensor, and the sums below.
std::string ModelReportText(const ModelReport& report);
// One object on one line.
std::string ModelReportJson(const ModelReport& report);

// 1.5 GiB, 12.0 KiB, 17 B.
std::string BytesText(int64_t bytes);
// 124,439,808.
std::string CountText(int64_t count);

}  // namespace muster::worker
