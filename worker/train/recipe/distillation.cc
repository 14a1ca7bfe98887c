#include "worker/train/recipe/distillation.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/kl_div.h>
#include <ATen/ops/log_softmax.h>
#include <c10/util/Exception.h>

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/train/recipe/transfer.h"
#include "worker/train/run/failure.h"

namespace muster::worker {
namespace {

class Distillation final : public Objective {
 public:
  Distillation(const DistillationConfig& config, std::unique_ptr<Objective> task,
               std::unique_ptr<Model> teacher)
      : config_(config), task_(std::move(task)), teacher_(std::move(teacher)) {
    teacher_->SetTraining(false);
    for (const ModelTensor& entry : teacher_->parameters())
      at::Tensor(entry.tensor).set_requires_grad(false);
  }

  bool accuracy_leads() const override { return task_->accuracy_leads(); }
  bool has_accuracy() const override { return task_->has_accuracy(); }

  at::Tensor TrainingLoss(const ModelOutput& output, const Batch& batch) const override {
    const at::Tensor own = task_->TrainingLoss(output, batch);
    return own.mul(1 - config_.alpha).add(Divergence(output, batch), config_.alpha);
  }

  at::Tensor EvaluationLoss(const ModelOutput& output, const Batch& batch) const override {
    return task_->EvaluationLoss(output, batch);
  }
  at::Tensor Correct(const ModelOutput& output, const Batch& batch) const override {
    return task_->Correct(output, batch);
  }
  at::Tensor Predicted(const ModelOutput& output) const override {
    return task_->Predicted(output);
  }
  at::Tensor CorrectInTopFive(const ModelOutput& output, const Batch& batch) const override {
    return task_->CorrectInTopFive(output, batch);
  }
  std::map<std::string, double> Derived(double loss) const override { return task_->Derived(loss); }

  int64_t held_bytes() const override {
    int64_t bytes = task_->held_bytes();
    for (const ModelTensor& entry : teacher_->state())
      bytes += static_cast<int64_t>(entry.tensor.nbytes());
    return bytes;
  }

 private:
  at::Tensor Divergence(const ModelOutput& output, const Batch& batch) const {
    at::Tensor taught;
    {
      const at::NoGradGuard no_grad;
      taught = Softened(teacher_->Forward(batch.inputs).values);
    }
    const at::Tensor learnt = Softened(output.values);
    TORCH_CHECK(taught.sizes() == learnt.sizes(),
                "train.distill: the teacher gives outputs of shape ", taught.sizes(),
                " a row each, the student of ", learnt.sizes());
    const double rows = static_cast<double>(learnt.size(0));
    const double scale = config_.temperature * config_.temperature / rows;
    return at::kl_div(learnt, taught, at::Reduction::Sum, /*log_target=*/true).mul(scale);
  }

  // [B, C] or [B, T, V] to rows of log-probabilities, in full precision.
  at::Tensor Softened(const at::Tensor& logits) const {
    const at::Tensor rows = logits.reshape({-1, logits.size(-1)}).to(at::kFloat);
    return at::log_softmax(rows.div(config_.temperature), /*dim=*/1);
  }

  const DistillationConfig config_;
  const std::unique_ptr<Objective> task_;
  const std::unique_ptr<Model> teacher_;
};

absl::StatusOr<std::string> Read(FileSystem& fs, const std::string& path, Model& teacher) {
  MUSTER_ASSIGN_OR_RETURN(const ModelFile file, ReadModelFile(fs, path));
  const absl::Status fit = CopyExactly(file.tensors, teacher);
  if (!fit.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(fit.message(),
                     ": train.distill.model must be the teacher's network, and tell as many "
                     "classes apart as the data has"));
  }
  return file.fingerprint;
}

}  // namespace

std::unique_ptr<Objective> MakeDistillation(const DistillationConfig& config,
                                            std::unique_ptr<Objective> task,
                                            std::unique_ptr<Model> teacher) {
  return std::make_unique<Distillation>(config, std::move(task), std::move(teacher));
}

absl::StatusOr<std::string> LoadTeacher(FileSystem& fs, const std::string& path, Model& teacher,
                                        Collectives& gang) {
  std::string fingerprint, failure;
  if (gang.rank() == 0) {
    auto read = Read(fs, path, teacher);
    if (read.ok()) {
      fingerprint = *std::move(read);
    } else {
      failure = FailureToText(
          Classify(read.status(), kStartFailed, absl::StrCat("train.distill.teacher ", path)));
    }
  }
  gang.BroadcastText(failure, 0);
  if (!failure.empty()) return FailureFromText(failure);
  gang.BroadcastText(fingerprint, 0);
  const at::NoGradGuard no_grad;
  for (const ModelTensor& entry : teacher.state()) {
    at::Tensor tensor = entry.tensor.detach();
    gang.Broadcast(tensor, 0);
  }
  return fingerprint;
}

}  // namespace muster::worker
