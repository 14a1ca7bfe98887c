#include "worker/models/foreign/trial.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muster::worker {

absl::Status CheckOutput(Model& model, const ModelContext& context, bool tokens) {
  std::vector<int64_t> sizes = {2};
  sizes.insert(sizes.end(), context.input_shape.begin(), context.input_shape.end());
  const at::Tensor inputs =
      at::zeros(sizes, at::TensorOptions(tokens ? at::kLong : at::kFloat).device(context.device));
  std::vector<int64_t> want = {2};
  if (tokens) want.push_back(context.input_shape[0]);
  want.push_back(context.classes);

  at::NoGradGuard no_grad;
  model.SetTraining(false);
  const at::Tensor values = model.Forward(inputs).values;
  model.SetTraining(true);
  if (values.sizes() == want) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("two samples of shape [", absl::StrJoin(context.input_shape, ", "),
                   "] give logits of shape [", absl::StrJoin(values.sizes(), ", "), "], want [",
                   absl::StrJoin(want, ", "), "]"));
}

}  // namespace muster::worker
