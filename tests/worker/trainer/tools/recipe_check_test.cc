#include "worker/trainer/tools/recipe_check.h"

#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/ckpt/safetensors.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/trainer/small_spec.h"
#include "worker/train/run/failure.h"
#include "worker/trainer/tools/bench.h"

namespace muster::worker {
namespace {

using muster::testing::SmallSpec;
using muster::testing::StatusIs;
using muster::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(Check, TellsWhatThereIsAndThatOneBatchCanBeLearnt) {
  ASSERT_OK_AND_ASSIGN(const CheckReport report, CheckRecipe(SmallSpec(), PosixFileSystem()));
  EXPECT_THAT(report.sample_shape, ElementsAre(16));
  EXPECT_EQ(report.train_samples, 256);
  EXPECT_EQ(report.validation_samples, 25);
  EXPECT_EQ(report.classes, 4);
  EXPECT_EQ(report.parameters, 16 * 64 + 64 + 64 * 4 + 4);
  EXPECT_EQ(report.total_steps, 500);
  EXPECT_EQ(report.device, "cpu");
  EXPECT_GT(report.memory_bytes, int64_t{8} << 20);
  EXPECT_THAT(report.memory_parts, HasSubstr("program"));
  EXPECT_LT(report.overfit_last_loss, 0.1 * report.overfit_first_loss);
  EXPECT_THAT(report.warnings, IsEmpty());
  const std::string text = CheckText(report);
  EXPECT_THAT(text, HasSubstr("256 training, 25 validation"));
  EXPECT_THAT(text, HasSubstr("memory      "));
  EXPECT_THAT(text, HasSubstr("communication "));
  const nlohmann::json json = nlohmann::json::parse(CheckJson(report));
  EXPECT_EQ(json["parameters"], report.parameters);
  EXPECT_EQ(json["memory_bytes"], report.memory_bytes);
  EXPECT_EQ(json["communication_seconds"], report.profile.communication_seconds);
}

TEST(Check, ProfilesTwoRanksOverTheJobsTransport) {
  trainer_spec::JobSpec spec = SmallSpec();
  spec.train.parallel.sync_batch_norm = true;
  ASSERT_OK_AND_ASSIGN(const StepProfile shared, ProfileRecipe(spec, PosixFileSystem()));
  EXPECT_EQ(shared.planned_ranks, 2);
  EXPECT_EQ(shared.ranks, 2);
  EXPECT_EQ(shared.transport, "shared_memory");
  EXPECT_GT(shared.compute_seconds, 0);
  EXPECT_GT(shared.communication_seconds, 0);
  EXPECT_GT(shared.samples_per_second, 0);
  EXPECT_GT(shared.loader_samples_per_second, shared.samples_per_second);
  EXPECT_EQ(shared.RanksText(), "2; 2 of them ran here, over shared_memory");
  spec.train.parallel.transport = trainer_spec::Transport::kGloo;
  ASSERT_OK_AND_ASSIGN(const StepProfile gloo, ProfileRecipe(spec, PosixFileSystem()));
  EXPECT_EQ(gloo.transport, "gloo");

  spec.ranks = {.min = 1, .max = 1};
  ASSERT_OK_AND_ASSIGN(const StepProfile alone, ProfileRecipe(spec, PosixFileSystem()));
  EXPECT_EQ(alone.ranks, 1);
  EXPECT_EQ(alone.communication_seconds, 0);
}

TEST(Check, RunsAsManyRanksAsTheCoresCarryButTwoOfAGang) {
  EXPECT_EQ(RanksToProfile(/*planned=*/1, /*cores=*/8, /*threads_per_rank=*/1, false), 1);
  EXPECT_EQ(RanksToProfile(16, 8, 1, false), 8);
  EXPECT_EQ(RanksToProfile(16, 8, 4, false), 2);
  EXPECT_EQ(RanksToProfile(16, 2, 8, false), 2);
  EXPECT_EQ(RanksToProfile(3, 8, 1, false), 3);
  EXPECT_EQ(RanksToProfile(4, 8, 1, /*on_gpus=*/true), 1);
}

TEST(Check, NamesWhatLimitsAStep) {
  const auto limit = [](double data, double compute, double communication, double optimizer) {
    StepProfile profile;
    profile.data_seconds = data;
    profile.compute_seconds = compute;
    profile.communication_seconds = communication;
    profile.optimizer_seconds = optimizer;
    return profile.LimitText();
  };
  EXPECT_THAT(limit(1, 8, 0.5, 0.5), HasSubstr("Computing takes 85 %"));
  EXPECT_THAT(limit(4, 4, 1, 1), HasSubstr("The loader takes 40 %"));
  EXPECT_THAT(limit(1, 4, 4, 1), HasSubstr("Communication takes 40 %"));
  EXPECT_THAT(limit(3, 3, 4, 0), HasSubstr("Communication takes 40 %"));
  EXPECT_THAT(limit(1, 2, 1, 6), HasSubstr("The optimizer takes 60 %"));
}

TEST(Check, WarnsOfARateThatLearnsNothing) {
  trainer_spec::JobSpec spec = SmallSpec();
  spec.train.optimizer.lr = 1e-9;
  ASSERT_OK_AND_ASSIGN(const CheckReport slow, CheckRecipe(spec, PosixFileSystem()));
  ASSERT_THAT(slow.warnings, SizeIs(1));
  EXPECT_THAT(slow.warnings[0], HasSubstr("could not be learnt by heart"));
}

TEST(Check, FailsAsTheRunWould) {
  trainer_spec::JobSpec spec = SmallSpec();
  spec.train.data.synthetic.reset();
  spec.train.data.digits = {.path = "/no/such/folder", .image_size = 16};
  const absl::Status status = CheckRecipe(spec, PosixFileSystem()).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no/such/folder")));
  EXPECT_EQ(FailureClassOf(status), kDataError);
}

struct BadStart {
  const char* name;
  std::string text;  // of the failure
  std::function<void(trainer_spec::Train&)> spoil;
};

TEST(Check, FailsWhereTheRunWouldNotStart) {
  const TempDir folder;
  const std::string garbage = folder / "garbage.safetensors";
  std::ofstream(garbage) << "these are no weights";
  const BadStart bad_starts[] = {
      {"weights that are not there", "train.weights.path /no/such/file",
       [](auto& train) { train.weights.path = "/no/such/file"; }},
      {"weights that are none", absl::StrCat("train.weights.path ", garbage),
       [&](auto& train) { train.weights.path = garbage; }},
      {"pruning that ends after the run", "end_step is 100, but the run ends after step 80",
       [](auto& train) {
         train.steps = 0;
         train.epochs = 10;  // 8 steps each of both ranks' batch, 16 of one rank's
         train.prune = {.sparsity = 0.5, .end_step = 100, .every_steps = 1, .pattern = "*"};
       }},
      {"pruning of nothing", "encoder.*",
       [](auto& train) {
         train.prune = {.sparsity = 0.5, .end_step = 9, .every_steps = 1, .pattern = "encoder.*"};
       }},
      {"a teacher that is not there", "train.distill.teacher /no/such/teacher",
       [](auto& train) {
         train.distill.teacher = "/no/such/teacher";
         train.distill.model = train.model;
       }},
  };
  for (const BadStart& bad : bad_starts) {
    trainer_spec::JobSpec spec = SmallSpec();
    bad.spoil(spec.train);
    const absl::Status status = CheckRecipe(spec, PosixFileSystem()).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.text)) << bad.name;
    EXPECT_EQ(FailureClassOf(status), kStartFailed) << bad.name << ": " << status;
  }
}

void WriteFile(const std::string& path, const std::vector<TensorBytes>& tensors) {
  std::ofstream file(path, std::ios::binary);
  ASSERT_OK(WriteSafetensors(tensors, [&file](absl::string_view bytes) {
    file << bytes;
    return absl::OkStatus();
  }));
}

// A last layer of zeros holds all four classes equally likely.
TEST(Check, BeginsWithTheWeightsOfTheRun) {
  const TempDir folder;
  trainer_spec::JobSpec spec = SmallSpec();
  spec.train.weights.path = folder / "weights.safetensors";
  const std::string zeros(4 * 64 * sizeof(float), '\0');
  WriteFile(spec.train.weights.path,
            {{"2.weight", TensorType::kF32, {4, 64}, zeros},
             {"2.bias", TensorType::kF32, {4}, absl::string_view(zeros).substr(0, 16)}});
  ASSERT_OK_AND_ASSIGN(const CheckReport report, CheckRecipe(spec, PosixFileSystem()));
  EXPECT_NEAR(report.overfit_first_loss, std::log(4), 1e-6);
}

TEST(Check, IsContentWithWeightsThatKnowTheBatch) {
  const TempDir folder;
  trainer_spec::JobSpec spec = SmallSpec();
  ASSERT_OK_AND_ASSIGN(Bench bench, SetUpBench(spec, PosixFileSystem()));
  MakeStep(bench);
  StepTimer timer(at::kCPU);
  for (int step = 0; step < 100; ++step)
    EXPECT_OK(bench.step->Run(step, *BatchAt(bench, 0), {}, /*settle=*/true, timer).status());
  spec.train.weights.path = folder / "weights.safetensors";
  std::vector<TensorBytes> tensors;
  for (const ModelTensor& entry : bench.model->state()) {
    const auto* data = static_cast<const char*>(entry.tensor.const_data_ptr());
    tensors.push_back({entry.name, TensorType::kF32, entry.tensor.sizes().vec(),
                       absl::string_view(data, entry.tensor.nbytes())});
  }
  WriteFile(spec.train.weights.path, tensors);
  spec.train.optimizer.lr = 1e-9;  // as good as nothing (WarnsOfARateThatLearnsNothing)
  ASSERT_OK_AND_ASSIGN(const CheckReport report, CheckRecipe(spec, PosixFileSystem()));
  EXPECT_THAT(report.warnings, IsEmpty());
  EXPECT_LT(report.overfit_first_loss, 0.1);
}

TEST(Check, CountsTheMovingAverageOfTheWeights) {
  trainer_spec::JobSpec spec = SmallSpec();
  spec.train.ema = {.decay = 0.9, .every_steps = 1};
  ASSERT_OK_AND_ASSIGN(const CheckReport report, CheckRecipe(spec, PosixFileSystem()));
  EXPECT_THAT(report.memory_parts, HasSubstr("moving average 5.3 KiB"));
}

TEST(RateRange, SuggestsTheSteepestFall) {
  // Falls around 1e-2 as the negative of a step function of the logarithm does.
  std::vector<RatePoint> points;
  for (int i = 0; i < 60; ++i) {
    const double lr = std::pow(10.0, -6 + i * 0.1);
    points.push_back({lr, 3 - 2 / (1 + std::exp(-4 * (std::log10(lr) + 2)))});
  }
  EXPECT_NEAR(std::log10(SteepestRate(points)), -2, 0.11);
  EXPECT_EQ(SteepestRate({}), 0);
}

TEST(RateRange, EndsWhereTheLossExplodes) {
  trainer_spec::JobSpec spec = SmallSpec();
  spec.train.optimizer = {};
  spec.train.optimizer.name = trainer_spec::OptimizerName::kSgd;
  spec.train.optimizer.momentum = 0.9;
  ASSERT_OK_AND_ASSIGN(const RateRange range, SweepLearningRates(spec, PosixFileSystem()));
  EXPECT_GT(range.points.size(), 50u);
  EXPECT_GT(range.suggested, 1e-6);
  EXPECT_LT(range.suggested, range.points.back().lr);
}

TEST(RateRange, NeedsNoMoreStepsForARecipeThatPrunesLate) {
  trainer_spec::JobSpec spec = SmallSpec();
  spec.train.prune = {.sparsity = 0.5, .end_step = 400, .every_steps = 100, .pattern = "*"};
  EXPECT_OK(SweepLearningRates(spec, PosixFileSystem()));
}

}  // namespace
}  // namespace muster::worker
