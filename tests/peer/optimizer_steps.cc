// optimizer_steps CASE IN OUT: the trainer's own optimizer and schedule on gradients that a Python
// test has written, so that it can compare each step (optimizers_against_pytorch.py).
//
// CASE: JSON with `spec` (resolved), `names` of the parameters in order, `steps`.
// IN: safetensors with "parameter.<name>" and "gradient.<step>.<name>", F32.
// OUT: safetensors with "after.<step>.<name>", F32, and "lr", F64 [steps].
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/fs/file_system.h"
#include "tests/peer/write_tensors.h"
#include "worker/checkpoint/restore.h"
#include "worker/trainer/rank/compose.h"

namespace muster::worker {
namespace {

// Parameters and nothing else.
class GivenModel final : public Model {
 public:
  void Add(const std::string& name, const at::Tensor& values) {
    AddParameter(name, values, at::kCPU);
  }
  ModelOutput Forward(const at::Tensor&) override { return {}; }
};

absl::Status Run(const std::string& case_file, const std::string& in, const std::string& out) {
  FileSystem& fs = PosixFileSystem();
  MUSTER_ASSIGN_OR_RETURN(const std::string text, fs.ReadFile(case_file, 1 << 20));
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  MUSTER_CHECK(json.is_object(), "the case is a JSON object");
  MUSTER_ASSIGN_OR_RETURN(const trainer_spec::JobSpec spec,
                          trainer_spec::DecodeJobSpec(json["spec"].dump()));
  MUSTER_ASSIGN_OR_RETURN(const NamedTensors given, ReadTensors(fs, in));
  std::map<std::string, at::Tensor> tensors;
  for (const NamedTensor& entry : given) tensors[entry.name] = entry.tensor;

  GivenModel model;
  for (const std::string name : json["names"]) model.Add(name, tensors.at("parameter." + name));
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<Optimizer> optimizer,
                          BuildOptimizer(spec.train.optimizer, model));
  const int64_t steps = json["steps"];
  const ScheduleConfig schedule = BuildSchedule(spec.train, steps);
  NamedTensors results = {{"lr", at::empty({steps}, at::kDouble)}};
  const at::NoGradGuard no_grad;
  for (int64_t step = 0; step < steps; ++step) {
    const double rate = LearningRate(schedule, step);
    results[0].tensor.data_ptr<double>()[step] = rate;
    std::vector<at::Tensor> gradients;
    for (const ModelTensor& entry : model.parameters()) {
      if (entry.tensor.requires_grad())
        gradients.push_back(tensors.at(absl::StrCat("gradient.", step, ".", entry.name)));
    }
    optimizer->Step(gradients, rate, /*found_inf=*/{});
    for (const ModelTensor& entry : model.parameters())
      results.push_back({absl::StrCat("after.", step, ".", entry.name), entry.tensor.clone()});
  }
  return muster::testing::WriteTensors(results, out);
}

}  // namespace
}  // namespace muster::worker

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: optimizer_steps CASE IN OUT\n", stderr);
    return 2;
  }
  const absl::Status status = muster::worker::Run(argv[1], argv[2], argv[3]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "optimizer_steps: %s\n", status.ToString().c_str());
  return 1;
}
