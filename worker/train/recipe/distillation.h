// Learning from a trained network: the teacher's outputs beside the data's targets (Hinton, Vinyals
// and Dean 2015, "Distilling the Knowledge in a Neural Network").
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "worker/dist/collectives.h"
#include "worker/models/base/model.h"
#include "worker/train/objective/objective.h"

namespace muster::worker {

struct DistillationConfig {
  double temperature = 4;  // above 0
  double alpha = 0.5;      // 0 to 1
};

// Training makes (1 - alpha) task + alpha temperature^2 KL(teacher || student) smaller, both
// outputs divided by the temperature; the mean over samples, and over a sample's tokens where there
// are some. The factor keeps the gradient's size whatever the temperature. The teacher judges the
// very inputs that the student got, in evaluation mode, without gradients, under the step's
// autocast. Evaluation is the task's own. The teacher's outputs must have the student's shape.
std::unique_ptr<Objective> MakeDistillation(const DistillationConfig& config,
                                            std::unique_ptr<Objective> task,
                                            std::unique_ptr<Model> teacher);

// Fills the teacher from a safetensors file or the folder of a checkpoint (its averages, where it
// has some), and returns the fingerprint of the file. All ranks call it: rank 0 reads, all have its
// tensors. START_FAILED when the file cannot be read or does not fit the model exactly.
absl::StatusOr<std::string> LoadTeacher(FileSystem& fs, const std::string& path, Model& teacher,
                                        Collectives& gang);

}  // namespace muster::worker
