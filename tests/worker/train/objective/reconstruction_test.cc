#include "worker/train/objective/reconstruction.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "worker/models/layers/patches.h"

namespace muster::worker {
namespace {

// Two pictures of four patches of 2 x 2.
Batch Pictures() {
  Batch batch;
  batch.inputs = at::arange(32).to(at::kFloat).square().view({2, 1, 4, 4});
  return batch;
}

at::Tensor Mask() {
  at::Tensor mask = at::zeros({2, 4});
  mask[0][1] = 1;
  mask[0][2] = 1;
  mask[1][0] = 1;
  mask[1][3] = 1;
  return mask;
}

TEST(Reconstruction, CountsTheErrorOfHiddenPatchesAlone) {
  const Batch batch = Pictures();
  const auto objective = MakeReconstruction({.patch_size = 2});
  // Wrong by 3 where it was hidden, by 100 where it was seen.
  const at::Tensor wrong = Mask() * 3 + (1 - Mask()) * 100;
  const ModelOutput output = {ToPatches(batch.inputs, 2) + wrong.unsqueeze(-1), Mask()};
  EXPECT_FLOAT_EQ(objective->TrainingLoss(output, batch).item<float>(), 9);
  EXPECT_FLOAT_EQ(objective->EvaluationLoss(output, batch).item<float>(), 2 * 9);
  EXPECT_FALSE(objective->Correct(output, batch).defined());
}

TEST(Reconstruction, NormedPixelsHaveMeanZeroAndDeviationOneInEachPatch) {
  const Batch batch = Pictures();
  const auto objective = MakeReconstruction({.patch_size = 2, .norm_pix_loss = true});
  // A model that answers 0 errs by the variance of the targets: 3/4, for it is the unbiased one
  // that they are divided by.
  const ModelOutput output = {at::zeros({2, 4, 4}), Mask()};
  EXPECT_NEAR(objective->TrainingLoss(output, batch).item<float>(), 0.75, 1e-5);
}

TEST(Reconstruction, APictureKeepsWhatWasSeenAndTakesThePredictionElsewhere) {
  const Batch batch = Pictures();
  const ModelOutput output = {at::zeros({2, 4, 4}), Mask()};
  const at::Tensor picture = Reconstruct(output, batch.inputs, {.patch_size = 2});
  EXPECT_TRUE(
      at::equal(ToPatches(picture, 2), ToPatches(batch.inputs, 2) * (1 - Mask()).unsqueeze(-1)));
}

TEST(Reconstruction, PerfectNormedPixelsGiveTheOriginalBack) {
  const Batch batch = Pictures();
  const at::Tensor patches = ToPatches(batch.inputs, 2);
  const at::Tensor normed = (patches - patches.mean(-1, true)) /
                            patches.var(at::OptionalIntArrayRef({-1}), true, true).sqrt();
  const at::Tensor picture =
      Reconstruct({normed, Mask()}, batch.inputs, {.patch_size = 2, .norm_pix_loss = true});
  EXPECT_TRUE(at::allclose(picture, batch.inputs, 1e-3, 1e-3));
}

}  // namespace
}  // namespace muster::worker
