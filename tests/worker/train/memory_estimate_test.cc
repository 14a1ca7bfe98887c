#include "worker/train/memory_estimate.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/rand.h>

#include <cstdio>
#include <optional>
#include <string>

#include "tests/support/status_matchers.h"
#include "worker/data/dataset.h"
#include "worker/models/mlp.h"
#include "worker/models/resnet.h"
#include "worker/train/allocation_trace.h"
#include "worker/train/step.h"

namespace muster::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(AllocationTrace, HoldsWhatTensorsTakeAndGiveBack) {
  at::Tensor older = at::empty({1000});
  at::Tensor kept;
  const AllocationTrace trace = TraceAllocations([&] {
    kept = at::empty({256});
    at::Tensor gone = at::empty({1024});
    older.reset();  // is not counted
    gone.reset();
    gone = at::empty({512});
  });
  EXPECT_EQ(trace.KeptBytes(), 1024);
  EXPECT_EQ(trace.PeakBytes(), 1024 + 4096);
  EXPECT_EQ(trace.PeakBytesBesideKept(), 4096);
  EXPECT_EQ(trace.events.size(), 5u);
}

TEST(AllocationTrace, ScalesEachEventByItself) {
  // Weights of 100 that do not grow, activations of 10 a sample.
  const auto of = [](int64_t samples) {
    return AllocationTrace{{{100}, {10 * samples}, {-10 * samples}, {7, true}, {-100}}};
  };
  const auto scaled = Extrapolate(of(2), 2, of(4), 4, 64);
  ASSERT_TRUE(scaled.has_value());
  EXPECT_EQ(scaled->PeakBytes(), 740);
  EXPECT_EQ(scaled->KeptBytes(), 7);
  EXPECT_FALSE(Extrapolate(of(2), 2, AllocationTrace{{{100}}}, 4, 64).has_value());
}

struct Case {
  const char* name;
  bool resnet;
  int64_t batch;
  Precision precision = Precision::kFp32;
  int64_t accumulate = 1;
  bool checkpoint_blocks = false;
};

struct Workbench {
  explicit Workbench(const Case& c) {
    const std::vector<int64_t> shape = {3, 16, 16};
    dataset = *MakeSynthetic({256, shape, 10, 1});
    loader.emplace(*dataset, Sampler(256, static_cast<uint64_t>(c.batch), 1));
    const ModelContext context = {
        .input_shape = shape, .classes = 10, .seed = 1, .checkpoint_blocks = c.checkpoint_blocks};
    model = c.resnet ? *MakeResNet({.width = 16}, context) : MakeMlp({{256, 256}}, context);
    std::vector<OptimizedParameter> parameters;
    for (const ModelTensor& entry : model->parameters())
      parameters.push_back({entry.name, entry.tensor});
    optimizer = MakeAdamW({}, parameters);
    recipe.schedule = {ScheduleName::kConstant, 0.001, 0, 0, 100};
    recipe.precision = c.precision;
    recipe.accumulate = c.accumulate;
  }
  EstimateParts parts() {
    return {recipe, *loader, *model, *objective, *optimizer, *gang, at::kCPU};
  }

  // What one real step holds at its peak, beside what was there before.
  int64_t StepPeak() {
    TrainStep step(recipe, {*model, *objective, *optimizer, *gang, at::kCPU});
    StepTimer timer;
    const Batch batch = loader->TrainBatch(0, 0, 1);
    step.Run(0, batch, {}, true, timer);  // whatever is taken once only
    return TraceAllocations([&] { step.Run(1, batch, {}, true, timer); }).PeakBytes();
  }

  Recipe recipe;
  std::unique_ptr<Collectives> gang = MakeLocalCollectives();
  std::unique_ptr<Objective> objective = MakeCrossEntropy(0);
  std::unique_ptr<Dataset> dataset;
  std::optional<Loader> loader;
  std::unique_ptr<Model> model;
  std::unique_ptr<Optimizer> optimizer;
};

class MemoryOfAStep : public ::testing::TestWithParam<Case> {};

// The peak is that of all tensors, scratch memory of kernels included, as the allocator counts it.
TEST_P(MemoryOfAStep, IsEstimatedWithin15PercentFromAFewSamples) {
  Workbench setup(GetParam());
  MemoryEstimate memory = CountMemory(setup.parts());
  MeasureActivations(setup.parts(), memory);
  const int64_t estimate = memory.gradients + memory.activations;
  const int64_t peak = setup.StepPeak();
  RecordProperty("estimate_bytes", std::to_string(estimate));
  RecordProperty("peak_bytes", std::to_string(peak));
  std::printf("%s: estimate %.2f MB, peak %.2f MB\n", GetParam().name,
              static_cast<double>(estimate) / 1e6, static_cast<double>(peak) / 1e6);
  EXPECT_NEAR(static_cast<double>(estimate) / static_cast<double>(peak), 1, 0.15);
}

INSTANTIATE_TEST_SUITE_P(
    Models, MemoryOfAStep,
    ::testing::Values(Case{"mlp", false, 128}, Case{"mlp_small_batch", false, 6},
                      Case{"mlp_bf16", false, 128, Precision::kBf16}, Case{"resnet18", true, 64},
                      Case{"resnet18_bf16", true, 64, Precision::kBf16},
                      Case{"resnet18_accumulated", true, 128, Precision::kFp32, 4},
                      Case{"resnet18_recomputed", true, 64, Precision::kFp32, 1, true}),
    [](const auto& info) { return info.param.name; });

TEST(MemoryEstimate, LeavesTheModelAsItWas) {
  Workbench setup({"resnet18", true, 16});
  std::vector<at::Tensor> before;
  for (const ModelTensor& entry : setup.model->state())
    before.push_back(entry.tensor.detach().clone());
  MemoryEstimate memory;
  MeasureActivations(setup.parts(), memory);
  for (size_t i = 0; i < before.size(); ++i) {
    const ModelTensor& entry = setup.model->state()[i];
    EXPECT_TRUE(entry.tensor.detach().equal(before[i])) << entry.name;
    EXPECT_FALSE(entry.tensor.grad().defined()) << entry.name;
  }
}

TEST(MemoryEstimate, CheckpointedBlocksNeedLess) {
  Workbench kept({"kept", true, 64}), again({"again", true, 64, Precision::kFp32, 1, true});
  const int64_t with = kept.StepPeak(), without = again.StepPeak();
  std::printf("resnet18 width 16, batch 64: peak %.2f MB, with checkpoint_blocks %.2f MB\n",
              static_cast<double>(with) / 1e6, static_cast<double>(without) / 1e6);
  EXPECT_LT(static_cast<double>(without), 0.75 * static_cast<double>(with));
}

TEST(MemoryEstimate, NamesItsPartsLargestFirstAndWhatToChange) {
  MemoryEstimate estimate;
  estimate.weights = 3 << 20;
  estimate.activations = 5 << 20;
  EXPECT_THAT(MemoryText(estimate), StartsWith("activations 5.0 MiB, weights 3.0 MiB"));
  Recipe recipe;
  EXPECT_THAT(MemoryAdvice(recipe), HasSubstr("train.precision bf16"));
  recipe.precision = Precision::kBf16;
  recipe.checkpoint_blocks = true;
  EXPECT_EQ(MemoryAdvice(recipe),
            "a smaller train.batch_size, train.accumulate above 1, or more ranks");
}

}  // namespace
}  // namespace muster::worker
