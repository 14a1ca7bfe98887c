#include "worker/train/objective/chunked_cross_entropy.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdio>

#include "worker/train/memory/allocation_trace.h"
#include "worker/train/step/amp.h"

namespace muster::worker {
namespace {

constexpr int64_t kRows = 23, kWidth = 12, kVocabulary = 50;
constexpr int64_t kIgnoredTarget = -100;
constexpr double kLossWeight = 3.5;  // the gradient of the loss

struct HeadInputs {
  at::Tensor hidden, table, targets;
};

HeadInputs SomeInputs(int64_t rows = kRows, int64_t vocabulary = kVocabulary) {
  const at::Generator generator = at::detail::createCPUGenerator(11);
  HeadInputs inputs = {at::randn({rows, kWidth}, generator),
                       at::randn({vocabulary, kWidth}, generator).mul_(0.5),
                       at::randint(vocabulary, {rows}, generator, at::kLong)};
  inputs.hidden.requires_grad_();
  inputs.table.requires_grad_();
  return inputs;
}

struct HeadOutcome {
  at::Tensor loss, predicted, hidden_gradient, table_gradient;
};

HeadOutcome Backward(const at::Tensor& loss, const at::Tensor& predicted,
                     const HeadInputs& inputs) {
  inputs.hidden.mutable_grad().reset();
  inputs.table.mutable_grad().reset();
  torch::autograd::backward({loss}, {at::full({}, kLossWeight)});
  return {loss.detach(), predicted, inputs.hidden.grad(), inputs.table.grad()};
}

HeadOutcome Plain(const HeadInputs& inputs, const ChunkOptions& options,
                  Precision precision = Precision::kFp32) {
  at::Tensor logits, loss;
  {
    const AutocastScope autocast(precision, at::kCPU);
    logits = at::linear(inputs.hidden, inputs.table);
    loss = at::cross_entropy_loss(logits, inputs.targets, {}, options.reduction, kIgnoredTarget,
                                  options.label_smoothing);
  }
  return Backward(loss, logits.argmax(1), inputs);
}

HeadOutcome Chunked(const HeadInputs& inputs, const ChunkOptions& options,
                    Precision precision = Precision::kFp32) {
  ChunkedLoss chunked;
  {
    const AutocastScope autocast(precision, at::kCPU);
    chunked = ChunkedCrossEntropy(inputs.hidden, inputs.table, inputs.targets, options);
  }
  return Backward(chunked.loss, chunked.predicted_R, inputs);
}

void ExpectNear(const HeadOutcome& one, const HeadOutcome& other, double tolerance) {
  EXPECT_TRUE(at::allclose(one.loss, other.loss, tolerance, tolerance))
      << one.loss.item<float>() << " and " << other.loss.item<float>();
  EXPECT_TRUE(at::allclose(one.hidden_gradient, other.hidden_gradient, tolerance, tolerance));
  EXPECT_TRUE(at::allclose(one.table_gradient, other.table_gradient, tolerance, tolerance));
}

TEST(ChunkedCrossEntropy, IsThatOfAllLogitsAtOnceWithItsGradients) {
  HeadInputs inputs = SomeInputs();
  for (const bool some_ignored : {false, true}) {
    if (some_ignored) inputs.targets.slice(0, 2, 20, 5).fill_(kIgnoredTarget);
    for (const int64_t reduction : {at::Reduction::Mean, at::Reduction::Sum}) {
      for (const double smoothing : {0.0, 0.15}) {
        const HeadOutcome plain =
            Plain(inputs, {.reduction = reduction, .label_smoothing = smoothing});
        // One row at a time; a last chunk that is short; all in one.
        for (const int64_t chunk_rows : {1, 5, 64}) {
          const HeadOutcome chunked = Chunked(
              inputs,
              {.reduction = reduction, .label_smoothing = smoothing, .chunk_rows = chunk_rows});
          ExpectNear(chunked, plain, 2e-6);
          EXPECT_TRUE(at::equal(chunked.predicted, plain.predicted) || some_ignored);
          EXPECT_TRUE(
              chunked.predicted.eq(inputs.targets).equal(plain.predicted.eq(inputs.targets)));
        }
      }
    }
  }
}

TEST(ChunkedCrossEntropy, RowsWithoutATargetTakeNoPart) {
  const HeadInputs inputs = SomeInputs();
  inputs.targets.slice(0, 0, 4).fill_(kIgnoredTarget);
  const HeadOutcome all = Chunked(inputs, {.chunk_rows = 3});
  EXPECT_TRUE(all.hidden_gradient.slice(0, 0, 4).eq(0).all().item<bool>());
  EXPECT_TRUE(all.hidden_gradient.slice(0, 4).ne(0).any(1).all().item<bool>());
  HeadInputs rest = inputs;
  rest.hidden = inputs.hidden.detach().slice(0, 4).clone().requires_grad_();
  rest.targets = inputs.targets.slice(0, 4);
  const HeadOutcome without = Chunked(rest, {.chunk_rows = 3});
  EXPECT_TRUE(at::allclose(all.loss, without.loss));
  EXPECT_TRUE(at::allclose(all.table_gradient, without.table_gradient, 1e-5, 1e-6));
}

// The gradients are rounded elsewhere than autograd rounds those of the plain way.
TEST(ChunkedCrossEntropy, GoesAlongWithAutocast) {
  const HeadInputs inputs = SomeInputs();
  const HeadOutcome exact = Plain(inputs, {});
  const auto distance = [](const at::Tensor& one, const at::Tensor& other) {
    return one.sub(other).norm().div(other.norm()).item<double>();
  };
  for (const auto& [precision, bound] :
       {std::pair(Precision::kBf16, 1e-2), std::pair(Precision::kFp16, 2e-3)}) {
    const HeadOutcome plain = Plain(inputs, {}, precision);
    const HeadOutcome chunked = Chunked(inputs, {.chunk_rows = 5}, precision);
    EXPECT_EQ(chunked.loss.scalar_type(), at::kFloat);
    EXPECT_EQ(chunked.hidden_gradient.scalar_type(), at::kFloat);
    EXPECT_EQ(chunked.table_gradient.scalar_type(), at::kFloat);
    // The logits are the same, and so the loss.
    EXPECT_NEAR(chunked.loss.item<double>(), plain.loss.item<double>(), 2e-6);
    EXPECT_TRUE(at::equal(chunked.predicted, plain.predicted));
    EXPECT_FALSE(at::equal(chunked.loss, exact.loss)) << "it computes in half precision";
    for (const HeadOutcome* half : {&plain, &chunked}) {
      EXPECT_LT(distance(half->hidden_gradient, exact.hidden_gradient), bound);
      EXPECT_LT(distance(half->table_gradient, exact.table_gradient), bound);
    }
  }
}

// fp16 holds nothing below 6e-8: what the mean divides by must not reach it, nor a loss scale.
TEST(ChunkedCrossEntropy, KeepsTheGradientsOfManyRowsInFp16) {
  const HeadInputs inputs = SomeInputs(/*rows=*/5000);
  const HeadOutcome exact = Plain(inputs, {});
  const HeadOutcome half = Chunked(inputs, {.chunk_rows = 512}, Precision::kFp16);
  for (const auto& [one, other] : {std::pair(half.hidden_gradient, exact.hidden_gradient),
                                   std::pair(half.table_gradient, exact.table_gradient)}) {
    EXPECT_LT(one.sub(other).norm().div(other.norm()).item<double>(), 2e-3);
  }
}

// 600 rows that all want one token: the gradient of its row of the table is beyond fp16.
TEST(ChunkedCrossEntropy, HoldsInFp16WhatManyRowsWantOfOneToken) {
  const HeadInputs inputs = SomeInputs(/*rows=*/600);
  inputs.targets.fill_(7);
  {
    const at::NoGradGuard no_grad;
    inputs.hidden.fill_(150);
    inputs.table.div_(1000);
  }
  const HeadOutcome exact = Plain(inputs, {.reduction = at::Reduction::Sum});
  const HeadOutcome half =
      Chunked(inputs, {.reduction = at::Reduction::Sum, .chunk_rows = 600}, Precision::kFp16);
  EXPECT_GT(exact.table_gradient.abs().max().item<double>(), 65504 * kLossWeight);
  EXPECT_TRUE(at::allclose(half.table_gradient, exact.table_gradient, 2e-2, 1));
}

// Of so many tokens most have a probability that is below fp16's smallest normal number.
TEST(ChunkedCrossEntropy, KeepsInFp16WhatUnlikelyTokensLearn) {
  const HeadInputs inputs = SomeInputs(/*rows=*/64, /*vocabulary=*/32768);
  const ChunkOptions options = {.label_smoothing = 0.1, .chunk_rows = 64};
  const at::Tensor wide = Plain(inputs, options).table_gradient;
  const at::Tensor half = Chunked(inputs, options, Precision::kFp16).table_gradient;
  const at::Tensor errors = half.sub(wide).norm(2, 1).div(wide.norm(2, 1));
  EXPECT_LT(errors.mean().item<double>(), 0.02);
}

TEST(ChunkedCrossEntropy, PaddedRowsNeverWinAndGetNoGradient) {
  const HeadInputs inputs = SomeInputs();
  {
    // Whatever the hidden state, all logits are far below those of the padded rows, which are 0.
    const at::NoGradGuard no_grad;
    inputs.hidden.select(1, 0).fill_(1);
    inputs.table.select(1, 0).fill_(-30);
  }
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    const HeadOutcome own = Chunked(inputs, {.chunk_rows = 5}, precision);
    const HeadOutcome padded = Chunked(inputs, {.chunk_rows = 5, .row_multiple = 64}, precision);
    ExpectNear(padded, own, precision == Precision::kFp32 ? 2e-6 : 1e-2);
    EXPECT_TRUE(at::equal(padded.predicted, own.predicted));
    EXPECT_LT(padded.predicted.max().item<int64_t>(), kVocabulary);
    EXPECT_EQ(padded.table_gradient.sizes(), at::IntArrayRef({kVocabulary, kWidth}));
    // What a row's softmax gives to tokens it takes from others: nothing goes elsewhere.
    EXPECT_LT(padded.table_gradient.select(1, 0).sum().abs().item<double>(), 0.2);
  }
}

TEST(ChunkedCrossEntropy, MakesNoGradientThatNobodyWants) {
  const HeadInputs inputs = SomeInputs();
  const HeadOutcome both = Chunked(inputs, {.chunk_rows = 5});
  HeadInputs frozen_table = inputs, frozen_body = inputs;
  frozen_table.table = inputs.table.detach();
  frozen_body.hidden = inputs.hidden.detach();
  const HeadOutcome body = Chunked(frozen_table, {.chunk_rows = 5});
  EXPECT_TRUE(at::equal(body.hidden_gradient, both.hidden_gradient));
  EXPECT_FALSE(frozen_table.table.grad().defined());
  const HeadOutcome table = Chunked(frozen_body, {.chunk_rows = 5});
  EXPECT_TRUE(at::equal(table.table_gradient, both.table_gradient));
  EXPECT_FALSE(frozen_body.hidden.grad().defined());

  const at::NoGradGuard no_grad;
  const ChunkedLoss evaluated =
      ChunkedCrossEntropy(inputs.hidden, inputs.table, inputs.targets, {.chunk_rows = 5});
  EXPECT_TRUE(at::equal(evaluated.loss, both.loss));
  EXPECT_FALSE(evaluated.loss.requires_grad());
}

TEST(ChunkedCrossEntropy, GivesTheSameBitsAgain) {
  const HeadInputs inputs = SomeInputs(/*rows=*/300);
  const HeadOutcome first = Chunked(inputs, {.chunk_rows = 64});
  const HeadOutcome second = Chunked(inputs, {.chunk_rows = 64});
  EXPECT_TRUE(at::equal(first.loss, second.loss));
  EXPECT_TRUE(at::equal(first.hidden_gradient, second.hidden_gradient));
  EXPECT_TRUE(at::equal(first.table_gradient, second.table_gradient));
}

// Its gradients are changed in place, and would be wrong the next time.
TEST(ChunkedCrossEntropy, RefusesASecondBackwardPass) {
  const HeadInputs inputs = SomeInputs();
  const at::Tensor loss =
      ChunkedCrossEntropy(inputs.hidden, inputs.table, inputs.targets, {.chunk_rows = 5}).loss;
  torch::autograd::backward({loss}, {at::full({}, 2.0)}, /*retain_graph=*/true);
  EXPECT_THROW(torch::autograd::backward({loss}, {at::full({}, 2.0)}), c10::Error);
}

// Logits of 16 MiB, of which an eighth is there at a time. Processors without instructions for bf16
// hold that part in fp32 beside it.
TEST(ChunkedCrossEntropy, TakesAFractionOfTheMemory) {
  constexpr int64_t kManyRows = 512, kManyTokens = 8192, kLogitsBytes = kManyRows * kManyTokens * 4;
  const HeadInputs inputs = SomeInputs(kManyRows, kManyTokens);
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    const int64_t plain = TraceAllocations([&] { Plain(inputs, {}, precision); }).PeakBytes();
    const int64_t chunked =
        TraceAllocations([&] { Chunked(inputs, {.chunk_rows = 64}, precision); }).PeakBytes();
    std::printf("logits of %.1f MB: peak %.1f MB at once, %.1f MB in chunks\n", kLogitsBytes / 1e6,
                static_cast<double>(plain) / 1e6, static_cast<double>(chunked) / 1e6);
    EXPECT_GT(plain, 2 * kLogitsBytes);
    EXPECT_LT(chunked, precision == Precision::kFp32 ? kLogitsBytes / 3 : kLogitsBytes / 2);
  }
}

TEST(ChunkRows, AreWholeTilesOfAboutOneSizeInMemory) {
  EXPECT_EQ(ChunkRows(50257), 640);
  EXPECT_EQ(ChunkRows(50304), 640);
  EXPECT_EQ(ChunkRows(4096), 8192);
  EXPECT_EQ(ChunkRows(int64_t{1} << 40), 64);
}

}  // namespace
}  // namespace muster::worker
