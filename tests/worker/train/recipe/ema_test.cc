#include "worker/train/recipe/ema.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>

#include <algorithm>

#include "common/ckpt/safetensors.h"
#include "common/fs/durable_folder.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/checkpoint/restore.h"
#include "worker/checkpoint/tensor_types.h"
#include "worker/models/mlp.h"
#include "worker/models/resnet.h"

namespace muster::worker {
namespace {

std::unique_ptr<Model> SmallModel() { return MakeMlp({{3}}, {{2}, 2, 7}); }

void AddToWeights(Model& model, double number) {
  at::NoGradGuard no_grad;
  for (const ModelTensor& entry : model.parameters()) at::Tensor(entry.tensor).add_(number);
}

TEST(EmaDecay, WarmsUpToTheConfiguredDecay) {
  const EmaConfig config = {.decay = 0.9, .every_steps = 2, .warmup = true};
  EXPECT_DOUBLE_EQ(EmaDecay(config, 2), 2.0 / 11);
  EXPECT_DOUBLE_EQ(EmaDecay(config, 20), 11.0 / 20);
  EXPECT_DOUBLE_EQ(EmaDecay(config, 2000), 0.9);
  EXPECT_DOUBLE_EQ(EmaDecay({.decay = 0.9, .every_steps = 2, .warmup = false}, 2), 0.9);
}

TEST(Ema, FollowsTheWeightsByItsDecay) {
  const auto model = SmallModel();
  Ema ema({.decay = 0.75, .every_steps = 1, .warmup = false}, *model);
  const at::Tensor start = model->parameters()[0].tensor.detach().clone();
  AddToWeights(*model, 1);
  ema.Update(1);
  EXPECT_EQ(ema.state()[0].name, "ema.0.weight");
  EXPECT_TRUE(ema.state()[0].tensor.allclose(start.add(0.25)));
  ema.Start();
  EXPECT_TRUE(ema.state()[0].tensor.equal(model->parameters()[0].tensor.detach()));
}

TEST(Ema, WaitsForItsSteps) {
  const auto model = SmallModel();
  Ema ema({.decay = 0.5, .every_steps = 3, .warmup = false}, *model);
  const at::Tensor start = model->parameters()[0].tensor.detach().clone();
  AddToWeights(*model, 1);
  ema.Update(1);
  ema.Update(2);
  EXPECT_TRUE(ema.state()[0].tensor.equal(start));
  ema.Update(3);
  EXPECT_FALSE(ema.state()[0].tensor.equal(start));
}

TEST(Ema, LeavesOutFrozenParameters) {
  const auto model = SmallModel();
  model->parameters()[0].tensor.set_requires_grad(false);
  const Ema ema({}, *model);
  EXPECT_EQ(ema.state().size(), model->parameters().size() - 1);
}

// Batch norm's statistics are those of the weights that they came with.
TEST(Ema, AveragesBuffersToo) {
  const auto made = MakeResNet({.width = 4}, {.input_shape = {1, 8, 8}, .classes = 3, .seed = 1});
  ASSERT_OK(made);
  Model& model = **made;
  Ema ema({.decay = 0.75, .every_steps = 1, .warmup = false}, model);
  const auto find = [](const std::vector<ModelTensor>& tensors, const std::string& name) {
    for (const ModelTensor& entry : tensors) {
      if (entry.name == name) return entry.tensor;
    }
    return at::Tensor();
  };
  const at::Tensor own = find(model.buffers(), "bn1.running_var");
  const at::Tensor average = find(ema.state(), "ema.bn1.running_var");
  ASSERT_TRUE(average.defined());
  EXPECT_FALSE(find(ema.state(), "ema.bn1.num_batches_tracked").defined()) << "counts are no mean";
  const at::NoGradGuard no_grad;
  at::Tensor(own).fill_(5);
  ema.Update(1);
  EXPECT_TRUE(average.allclose(at::full_like(average, 2)));  // 1 + (5 - 1) / 4
  {
    const EmaScope scope(&ema);
    EXPECT_TRUE(own.allclose(at::full_like(own, 2)));
  }
  EXPECT_TRUE(own.equal(at::full_like(own, 5)));
  EXPECT_TRUE(average.allclose(at::full_like(average, 2)));
  ema.Start();
  EXPECT_TRUE(average.equal(own));
}

// An older Muster averaged parameters alone, and judged them with the model's own buffers.
TEST(Ema, ACheckpointWithoutAveragesOfBuffersIsStillLoaded) {
  const auto made = MakeResNet({.width = 4}, {.input_shape = {1, 8, 8}, .classes = 3, .seed = 1});
  ASSERT_OK(made);
  Model& model = **made;
  const Ema ema({}, model);
  const NamedTensors saved = SavedTensors(model, &ema);
  const auto find = [&](const std::string& name) {
    const auto it = std::find_if(saved.begin(), saved.end(),
                                 [&](const NamedTensor& entry) { return entry.name == name; });
    return it == saved.end() ? at::Tensor() : it->tensor;
  };
  const at::Tensor own = find("bn1.running_var"), average = find("ema.bn1.running_var");
  ASSERT_TRUE(own.defined() && average.defined());
  const at::NoGradGuard no_grad;
  own.fill_(5);
  testing::TempDir dir;
  const std::string file = dir / "model.safetensors";
  const auto write = [&](const std::string& without) {
    std::vector<TensorBytes> tensors;
    for (const NamedTensor& entry : saved) {
      if (!without.empty() && entry.name.starts_with(without)) continue;
      tensors.push_back(
          {entry.name,
           *ToTensorType(entry.tensor.scalar_type()),
           entry.tensor.sizes().vec(),
           {static_cast<const char*>(entry.tensor.const_data_ptr()), entry.tensor.nbytes()}});
    }
    std::string bytes;
    ASSERT_OK(WriteSafetensors(tensors, [&](absl::string_view piece) {
      bytes.append(piece.data(), piece.size());
      return absl::OkStatus();
    }));
    ASSERT_OK(WriteFileAtomically(PosixFileSystem(), file, bytes));
  };
  write("ema.bn1.running_");
  own.fill_(0);
  ASSERT_OK(LoadTensors(PosixFileSystem(), file, saved));
  EXPECT_TRUE(own.equal(at::full_like(own, 5)));
  EXPECT_TRUE(average.equal(own));
  // A parameter's average is nothing that may be missing.
  write("ema.conv1.weight");
  EXPECT_EQ(LoadTensors(PosixFileSystem(), file, saved).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(EmaScope, TheModelComputesWithTheAveragesAndThenWithItsOwnWeightsAgain) {
  const auto model = SmallModel();
  Ema ema({.decay = 0.5, .every_steps = 1, .warmup = false}, *model);
  const at::Tensor inputs = model->parameters()[0].tensor.detach().clone();  // any [3, 2]
  at::NoGradGuard no_grad;
  const at::Tensor of_start = model->Forward(inputs).values.clone();
  AddToWeights(*model, 1);
  const at::Tensor of_weights = model->Forward(inputs).values.clone();
  const at::Tensor weights = model->parameters()[0].tensor.detach().clone();
  {
    EmaScope scope(&ema);
    EXPECT_TRUE(model->Forward(inputs).values.equal(of_start));
  }
  EXPECT_TRUE(model->Forward(inputs).values.equal(of_weights));
  EXPECT_TRUE(model->parameters()[0].tensor.equal(weights));
  EXPECT_TRUE(model->parameters()[0].tensor.requires_grad());
  // And the averages go on from where they were.
  ema.Update(1);
  EXPECT_TRUE(ema.state()[0].tensor.allclose(weights.sub(0.5)));
  EmaScope none(nullptr);
}

}  // namespace
}  // namespace muster::worker
