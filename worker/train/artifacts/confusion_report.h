// What a classifier mixes up in the final test, as tables for people.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "common/fs/file_system.h"
#include "worker/train/artifacts/artifact.h"

namespace muster::worker {

// Above it a matrix says nothing to people.
inline constexpr int64_t kMostConfusionClasses = 1000;

// Writes `confusion-test.csv` and `classes-test.csv` into the folder, which is made. `fs` must
// outlive it.
std::unique_ptr<Artifact> MakeConfusionFiles(FileSystem& fs, std::string folder);

// A header of predicted classes, then a line for each true class. `confusion` is int64 [classes,
// classes] as Evaluation has it.
std::string ConfusionCsv(const at::Tensor& confusion);

// "class,samples,correct,accuracy": a line for each class; accuracy is empty without samples.
std::string PerClassCsv(const at::Tensor& confusion);

}  // namespace muster::worker
