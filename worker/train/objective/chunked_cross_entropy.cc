#include "worker/train/objective/chunked_cross_entropy.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/max.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <tuple>

#include "worker/models/layers/token_head.h"

namespace muster::worker {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Of a chunk's logits in fp32. Larger ones save nothing that matters; smaller ones keep a GPU busy
// with the table's gradient, to which each chunk adds.
constexpr int64_t kChunkBytes = 128 << 20;
constexpr int64_t kRowGroup = 64;  // chunks are of whole tiles
constexpr int64_t kIgnored = -100;
// What the gradient of the logits, at most 1, is multiplied with while it is in half precision: of
// 50,000 tokens most have one below fp16's smallest number. A power of two costs no digits.
constexpr double kHalfScale = 1024;

struct Sums {
  at::Tensor loss;  // over all rows, 0-dim
  at::Tensor predicted_R;
  // Of that loss; undefined where nobody wants them.
  at::Tensor hidden_gradient_RW;  // of the type of products, times `gradient_scale`
  at::Tensor table_gradient_VW;   // fp32, likewise
  double gradient_scale = 1;
};

c10::ScalarType ProductType(const at::Tensor& table) {
  const c10::DeviceType device = table.device().type();
  return at::autocast::is_autocast_enabled(device) ? at::autocast::get_autocast_dtype(device)
                                                   : table.scalar_type();
}

// Fills in each row's loss and likeliest token. Leaves the loss's gradient in `logits_CV`, fp32, in
// place of the logits. All targets are tokens.
void TakeLoss(at::Tensor logits_CV, const at::Tensor& targets_C1, double smoothing,
              at::Tensor losses_C1, at::Tensor predicted_C1) {
  const double vocabulary = static_cast<double>(logits_CV.size(1));
  const auto [largest_C1, likeliest_C1] = at::max(logits_CV, /*dim=*/1, /*keepdim=*/true);
  predicted_C1.copy_(likeliest_C1);
  logits_CV.sub_(largest_C1);
  at::Tensor wanted_C1 = logits_CV.gather(1, targets_C1).mul_(1 - smoothing);
  if (smoothing > 0) wanted_C1.add_(logits_CV.mean(1, /*keepdim=*/true), smoothing);
  const at::Tensor sums_C1 = logits_CV.exp_().sum(1, /*keepdim=*/true);
  losses_C1.copy_(sums_C1.log().sub_(wanted_C1));
  // The softmax, less what it should be.
  logits_CV.div_(sums_C1);
  if (smoothing > 0) logits_CV.sub_(smoothing / vocabulary);
  const at::Tensor of_targets_C1 = logits_CV.gather(1, targets_C1).sub_(1 - smoothing);
  logits_CV.scatter_(1, targets_C1, of_targets_C1);
}

// Goes through the rows a chunk at a time. Its buffers are made once, as large as a whole chunk
// however few the rows are: so a memory estimate from a few samples sees what a step takes.
class Chunks {
 public:
  // What requires a gradient, where they are recorded, gets one.
  Chunks(const at::Tensor& hidden_RW, const at::Tensor& table_VW, const at::Tensor& targets_R,
         const ChunkOptions& options)
      : type_(ProductType(table_VW)),
        rows_(hidden_RW.size(0)),
        most_(options.chunk_rows),
        vocabulary_(table_VW.size(0)),
        smoothing_(options.label_smoothing),
        ignored_R1_(targets_R.eq(kIgnored).unsqueeze(1)),
        targets_R1_(targets_R.clamp_min(0).unsqueeze(1)) {
    const bool learns = at::GradMode::is_enabled();
    const at::NoGradGuard no_grad;
    hidden_RW_ = hidden_RW.to(type_).masked_fill(ignored_R1_, 0);
    table_PW_ = PadRows(table_VW.to(type_), options.row_multiple);
    const at::TensorOptions wide = hidden_RW_.options().dtype(at::kFloat);
    products_CP_ = at::empty({most_, table_PW_.size(0)}, hidden_RW_.options());
    logits_CV_ = type_ == at::kFloat ? products_CP_.narrow(1, 0, vocabulary_)
                                     : at::empty({most_, vocabulary_}, wide);
    losses_R1_ = at::empty({rows_, 1}, wide);
    predicted_R1_ = at::empty_like(targets_R1_);
    if (learns && hidden_RW.requires_grad()) hidden_gradient_RW_ = at::empty_like(hidden_RW_);
    if (learns && table_VW.requires_grad()) table_gradient_PW_ = at::zeros(table_PW_.sizes(), wide);
  }

  Sums Run() {
    const at::NoGradGuard no_grad;
    for (int64_t begin = 0; begin < rows_; begin += most_)
      Add(begin, std::min(most_, rows_ - begin));
    Sums sums = {.loss = losses_R1_.masked_fill_(ignored_R1_, 0).sum(),
                 .predicted_R = predicted_R1_.squeeze(1),
                 .gradient_scale = gradient_scale_};
    if (hidden_gradient_RW_.defined())
      sums.hidden_gradient_RW = hidden_gradient_RW_.masked_fill_(ignored_R1_, 0);
    if (table_gradient_PW_.defined())
      sums.table_gradient_VW = table_gradient_PW_.narrow(0, 0, vocabulary_);
    return sums;
  }

 private:
  void Add(int64_t begin, int64_t count) {
    const auto chunk = [&](const at::Tensor& all) { return all.narrow(0, begin, count); };
    at::Tensor product_CP = products_CP_.narrow(0, 0, count);
    const at::Tensor product_CV = product_CP.narrow(1, 0, vocabulary_);
    const at::Tensor logits_CV = logits_CV_.narrow(0, 0, count);
    at::mm_out(product_CP, chunk(hidden_RW_), table_PW_.t());
    if (type_ != at::kFloat) logits_CV.copy_(product_CV);
    TakeLoss(logits_CV, chunk(targets_R1_), smoothing_, chunk(losses_R1_), chunk(predicted_R1_));
    // The gradient takes the product's place.
    if (type_ != at::kFloat) product_CV.copy_(logits_CV.mul_(gradient_scale_));
    AddGradients(product_CP, logits_CV, chunk(hidden_RW_), begin);
  }

  // `wide_CV`: the gradient in fp32.
  void AddGradients(const at::Tensor& gradient_CP, const at::Tensor& wide_CV,
                    const at::Tensor& hidden_CW, int64_t begin) {
    const int64_t padding = gradient_CP.size(1) - vocabulary_;
    if (padding > 0) gradient_CP.narrow(1, vocabulary_, padding).zero_();
    if (hidden_gradient_RW_.defined()) {
      at::Tensor part_CW = hidden_gradient_RW_.narrow(0, begin, gradient_CP.size(0));
      at::mm_out(part_CW, gradient_CP, table_PW_);
    }
    if (!table_gradient_PW_.defined()) return;
    // In fp32: a chunk's rows may all pull at one token, and fp16 ends at 65504. A GPU multiplies
    // in half precision and adds in fp32.
    if (type_ != at::kFloat && gradient_CP.is_cuda()) {
      table_gradient_PW_.add_(at::mm(gradient_CP.t(), hidden_CW, at::kFloat));
    } else {
      table_gradient_PW_.narrow(0, 0, vocabulary_).addmm_(wide_CV.t(), hidden_CW.to(at::kFloat));
    }
  }

  const c10::ScalarType type_;  // of products
  const double gradient_scale_ = type_ == at::kFloat ? 1 : kHalfScale;
  const int64_t rows_, most_, vocabulary_;
  const double smoothing_;
  const at::Tensor ignored_R1_, targets_R1_;
  at::Tensor hidden_RW_, table_PW_;     // for the product; ignored rows are 0
  at::Tensor products_CP_, logits_CV_;  // a chunk's; in fp32 the same memory
  at::Tensor losses_R1_, predicted_R1_;
  at::Tensor hidden_gradient_RW_, table_gradient_PW_;  // undefined: not wanted
};

// Tells autograd of gradients that are there. They are scaled when the loss's own comes, not
// before: so those of fp16 are of a size that it holds, whatever the number of rows and the loss
// scale. In place, for the table's is large; torch refuses a second backward pass thereby.
class KeptGradients final : public torch::autograd::Function<KeptGradients> {
 public:
  // loss = sums.loss scale
  static at::Tensor forward(AutogradContext* context, const at::Tensor& /*hidden_RW*/,
                            const at::Tensor& /*table_VW*/, const Sums& sums,
                            const at::Tensor& scale) {
    context->save_for_backward(
        {sums.hidden_gradient_RW, sums.table_gradient_VW, scale.div(sums.gradient_scale)});
    return sums.loss.mul(scale);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor scale = gradients[0].mul(saved[2]);
    const auto scaled = [&](const at::Tensor& gradient) {
      return gradient.defined() ? gradient.to(at::kFloat).mul_(scale) : gradient;
    };
    return {scaled(saved[0]), scaled(saved[1]), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

ChunkedLoss ChunkedCrossEntropy(const at::Tensor& hidden_RW, const at::Tensor& table_VW,
                                const at::Tensor& targets_R, const ChunkOptions& options) {
  const Sums sums = Chunks(hidden_RW, table_VW, targets_R, options).Run();
  at::Tensor scale = at::ones({}, sums.loss.options());
  if (options.reduction == at::Reduction::Mean) scale = scale.div(targets_R.ne(kIgnored).sum());
  return {KeptGradients::apply(hidden_RW, table_VW, sums, scale), sums.predicted_R};
}

int64_t ChunkRows(int64_t vocabulary) {
  const int64_t row_bytes = vocabulary * static_cast<int64_t>(sizeof(float));
  return std::max<int64_t>(1, kChunkBytes / row_bytes / kRowGroup) * kRowGroup;
}

}  // namespace muster::worker
