#include "worker/train/recipe/distillation.h"

#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <functional>
#include <utility>

#include "common/ckpt/safetensors.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/train/training_run.h"
#include "worker/models/mlp.h"
#include "worker/train/run/failure.h"

namespace muster::worker {
namespace {

using muster::testing::ExpectSameBits;
using muster::testing::ExpectSameBitsOnAllRanks;
using muster::testing::RunOutcome;
using muster::testing::RunTraining;
using muster::testing::StatusIs;
using muster::testing::StopAfter;
using muster::testing::TempDir;
using muster::testing::TrainingRun;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Gives the same outputs whatever it sees, and keeps how it was asked.
class FixedTeacher final : public Model {
 public:
  explicit FixedTeacher(at::Tensor logits) { logits_ = AddParameter("logits", logits, at::kCPU); }
  ModelOutput Forward(const at::Tensor& inputs) override {
    EXPECT_FALSE(training());
    seen = inputs;
    return {logits_.mul(1)};
  }
  at::Tensor seen;

 private:
  at::Tensor logits_;
};

at::Tensor StudentLogits() {
  return at::tensor({2.0f, 0.5f, -1.0f, 0.25f, 1.5f, 0.0f}).view({2, 3});
}
at::Tensor TeacherLogits() {
  return at::tensor({3.0f, -0.5f, 0.0f, 1.0f, 1.25f, -2.0f}).view({2, 3});
}
Batch TwoSamples() { return {.inputs = at::tensor({7.0f}), .targets = at::tensor({0L, 2L})}; }

std::vector<double> Softmax(const at::Tensor& logits, double temperature) {
  std::vector<double> p;
  double sum = 0;
  for (int64_t i = 0; i < logits.numel(); ++i)
    sum += p.emplace_back(std::exp(logits[i].item<double>() / temperature));
  for (double& each : p) each /= sum;
  return p;
}

// KL(teacher || student), the mean over rows.
double Divergence(double temperature) {
  double sum = 0;
  for (int64_t row = 0; row < 2; ++row) {
    const auto q = Softmax(TeacherLogits()[row], temperature);
    const auto p = Softmax(StudentLogits()[row], temperature);
    for (size_t i = 0; i < 3; ++i) sum += q[i] * std::log(q[i] / p[i]);
  }
  return sum / 2;
}

double Loss(const DistillationConfig& config, const at::Tensor& teacher) {
  const auto objective =
      MakeDistillation(config, MakeCrossEntropy(0), std::make_unique<FixedTeacher>(teacher));
  return objective->TrainingLoss({StudentLogits()}, TwoSamples()).item<double>();
}

TEST(Distillation, TheLossIsHintons) {
  const double task =
      MakeCrossEntropy(0)->TrainingLoss({StudentLogits()}, TwoSamples()).item<double>();
  EXPECT_EQ(Loss({.temperature = 4, .alpha = 0}, TeacherLogits()), task);
  for (const double temperature : {1.0, 4.0, 20.0}) {
    const double taught = temperature * temperature * Divergence(temperature);
    // At high temperatures the divergence is a small difference of numbers near 1.
    EXPECT_NEAR(Loss({temperature, 1}, TeacherLogits()), taught, 1e-4 * taught);
    EXPECT_NEAR(Loss({temperature, 0.3}, TeacherLogits()), 0.7 * task + 0.3 * taught, 1e-4);
  }
  EXPECT_NEAR(Loss({4, 1}, StudentLogits()), 0, 1e-6) << "who agrees with the teacher is done";
}

TEST(Distillation, OfTokensItIsTheMeanOverAllOfThem) {
  const auto objective =
      MakeDistillation({2, 1}, MakeLanguageModel(0),
                       std::make_unique<FixedTeacher>(TeacherLogits().view({1, 2, 3})));
  const Batch tokens = {.inputs = at::tensor({0L, 1L}).view({1, 2}),
                        .targets = at::tensor({1L, 2L}).view({1, 2})};
  EXPECT_NEAR(objective->TrainingLoss({StudentLogits().view({1, 2, 3})}, tokens).item<double>(),
              4 * Divergence(2), 1e-5);
}

TEST(Distillation, TheTeacherLearnsNothingAndEvaluationIsTheTasks) {
  auto owned = std::make_unique<FixedTeacher>(TeacherLogits());
  FixedTeacher& teacher = *owned;
  const auto objective = MakeDistillation({4, 0.5}, MakeCrossEntropy(0), std::move(owned));
  const at::Tensor student = StudentLogits().requires_grad_();
  torch::autograd::backward({objective->TrainingLoss({student}, TwoSamples())});
  EXPECT_TRUE(student.grad().defined());
  EXPECT_FALSE(teacher.parameters()[0].tensor.requires_grad());
  EXPECT_FALSE(teacher.parameters()[0].tensor.grad().defined());
  EXPECT_TRUE(teacher.seen.equal(TwoSamples().inputs));
  EXPECT_EQ(objective->held_bytes(), 6 * 4);

  const auto task = MakeCrossEntropy(0);
  EXPECT_TRUE(objective->accuracy_leads());
  EXPECT_TRUE(objective->EvaluationLoss({StudentLogits()}, TwoSamples())
                  .equal(task->EvaluationLoss({StudentLogits()}, TwoSamples())));
  EXPECT_TRUE(objective->Correct({StudentLogits()}, TwoSamples())
                  .equal(task->Correct({StudentLogits()}, TwoSamples())));
}

std::unique_ptr<Model> Mlp(std::vector<int64_t> hidden, int64_t classes, uint64_t seed) {
  return MakeMlp({std::move(hidden)}, {.input_shape = {12}, .classes = classes, .seed = seed});
}

std::string Write(const TempDir& dir, const Model& model, const std::string& prefix = "") {
  std::vector<TensorBytes> tensors;
  for (const ModelTensor& entry : model.state()) {
    tensors.push_back({prefix + entry.name, TensorType::kF32, entry.tensor.sizes().vec(),
                       absl::string_view(static_cast<const char*>(entry.tensor.const_data_ptr()),
                                         entry.tensor.nbytes())});
  }
  std::string bytes;
  EXPECT_OK(WriteSafetensors(tensors, [&bytes](absl::string_view piece) {
    bytes.append(piece.data(), piece.size());
    return absl::OkStatus();
  }));
  const std::string path = dir / "teacher.safetensors";
  EXPECT_OK(WriteFileAtomically(PosixFileSystem(), path, bytes));
  return path;
}

TEST(LoadTeacher, TakesExactlyItsOwnWeights) {
  TempDir dir;
  const auto source = Mlp({8}, 4, 3), teacher = Mlp({8}, 4, 4);
  const auto gang = Gang::OfOne();
  const auto fingerprint = LoadTeacher(PosixFileSystem(), Write(dir, *source), *teacher, *gang);
  ASSERT_OK(fingerprint);
  EXPECT_THAT(*fingerprint, ::testing::StartsWith("xxh3:"));
  for (size_t i = 0; i < source->state().size(); ++i)
    EXPECT_TRUE(source->state()[i].tensor.equal(teacher->state()[i].tensor));

  const auto refused = [&](Model& model, const std::string& path) {
    const auto status = LoadTeacher(PosixFileSystem(), path, model, *gang).status();
    EXPECT_EQ(FailureClassOf(status), kStartFailed);
    return std::string(status.message());
  };
  EXPECT_THAT(
      refused(*Mlp({8}, 10, 4), Write(dir, *source)),
      AllOf(HasSubstr("2.weight is [4, 8], want [10, 8]"),
            HasSubstr("as many classes apart as the data"), HasSubstr("teacher.safetensors")));
  EXPECT_THAT(refused(*Mlp({8, 8}, 4, 4), Write(dir, *source)), HasSubstr("4.weight is missing"));
  EXPECT_THAT(refused(*teacher, Write(dir, *source, "net.")), HasSubstr("0.weight is missing"));
  EXPECT_THAT(refused(*teacher, dir / "nothing"), HasSubstr("nothing"));
}

TrainingRun TaughtRun(const std::string& root) {
  TrainingRun run;
  run.world_size = 2;
  run.root = root;
  run.wrap_objective = [](std::unique_ptr<Objective> task) {
    return MakeDistillation({4, 0.7}, std::move(task), Mlp({16}, 4, 77));
  };
  run.teacher_fingerprint = "xxh3:01";
  run.recipe.total_steps = 12;
  run.recipe.schedule = {ScheduleName::kConstant, 0.01, 0, 0, 12};
  run.recipe.report_every_steps = 1;
  run.recipe.evaluation_batch_size = 3;
  run.recipe.save_every_steps = 4;
  run.recipe.commit_timeout = absl::Minutes(1);
  return run;
}

TEST(DistilledRun, ResumedEqualsNeverHavingStoppedButNotWithAnotherTeacher) {
  TempDir whole_root, broken_root;
  TrainingRun run = TaughtRun(whole_root.path());
  const RunOutcome whole = RunTraining(run);
  ASSERT_OK(whole.ranks[0].result);
  ExpectSameBitsOnAllRanks(whole);

  run.root = broken_root.path();
  ASSERT_NO_FATAL_FAILURE(StopAfter(4, run));

  TrainingRun other = run;
  other.teacher_fingerprint = "xxh3:02";
  for (const auto& rank : RunTraining(other).ranks) {
    EXPECT_EQ(FailureClassOf(rank.result.status()), kDataError);
    EXPECT_THAT(rank.result.status().message(),
                HasSubstr("train.distill.teacher: the file changed"));
  }

  const RunOutcome second = RunTraining(run);
  ASSERT_OK(second.ranks[0].result);
  ExpectSameBits(whole, second);
  EXPECT_EQ(whole.ranks[0].result->results, second.ranks[0].result->results);
}

}  // namespace
}  // namespace muster::worker
