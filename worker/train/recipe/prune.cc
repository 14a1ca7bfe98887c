#include "worker/train/recipe/prune.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/count_nonzero.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sort.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "worker/optim/parameter_groups.h"

namespace muster::worker {
namespace {

// Of live weights from 0 up; so it is always the dead ones that come first.
constexpr double kScoreOfDead = -1;

// What AllButSmallest takes for each score: the score, its result, the sorted scores, their places,
// and the room of a stable sort, which is for half of them with their places.
constexpr int64_t kScoreBytes = 4, kAliveBytes = 1, kPlaceBytes = 8, kSortBytes = 8;

// True for all but the `count` smallest scores, of equal ones the first.
at::Tensor AllButSmallest(const at::Tensor& scores, int64_t count) {
  at::Tensor alive = at::ones(scores.sizes(), scores.options().dtype(at::kBool));
  const at::Tensor order =
      std::get<1>(at::sort(scores, /*stable=*/true, /*dim=*/0, /*descending=*/false));
  alive.index_fill_(0, order.narrow(0, 0, count), false);
  return alive;
}

bool MayBePruned(const PruneConfig& config, const ModelTensor& entry) {
  return entry.tensor.dim() >= 2 && entry.tensor.requires_grad() &&
         MatchesPattern(config.pattern, entry.name);
}

}  // namespace

double SparsityAfter(const PruneConfig& config, int64_t step) {
  if (step < config.begin_step) return 0;
  if (step >= config.end_step) return config.sparsity;
  const double progress = static_cast<double>(step - config.begin_step) /
                          static_cast<double>(config.end_step - config.begin_step);
  return config.sparsity * (1 - std::pow(1 - progress, 3));
}

bool PrunesAfter(const PruneConfig& config, int64_t step) {
  if (step < config.begin_step || step > config.end_step) return false;
  return step == config.end_step || (step - config.begin_step) % config.every_steps == 0;
}

int64_t PrunedOf(double sparsity, int64_t count) {
  return static_cast<int64_t>(std::nearbyint(sparsity * static_cast<double>(count)));
}

absl::StatusOr<std::unique_ptr<Pruner>> Pruner::Create(const PruneConfig& config,
                                                       const Model& model, const Ema* ema) {
  auto pruner = std::unique_ptr<Pruner>(new Pruner(config, model, ema));
  if (!pruner->weights_.empty()) return pruner;
  std::vector<std::string> names;
  for (const ModelTensor& entry : model.parameters()) {
    if (entry.tensor.dim() >= 2 && entry.tensor.requires_grad()) names.push_back(entry.name);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "train.prune.pattern `", config.pattern,
      "` matches no parameter of two axes or more that is trained; the nearest one is `",
      NearestToPattern(config.pattern, names), "`"));
}

Pruner::Pruner(const PruneConfig& config, const Model& model, const Ema* ema) : config_(config) {
  for (const ModelTensor& entry : model.parameters()) {
    if (!MayBePruned(config, entry)) continue;
    weights_.push_back(entry.tensor);
    masks_.push_back({kMaskPrefix + entry.name, at::ones_like(entry.tensor.detach(), at::kBool)});
    if (ema == nullptr) continue;
    const auto average = std::find_if(
        ema->state().begin(), ema->state().end(),
        [&](const ModelTensor& other) { return other.name == kEmaPrefix + entry.name; });
    if (average != ema->state().end()) averages_.push_back(average->tensor);
  }
}

void Pruner::AfterStep(int64_t step) {
  if (step < config_.begin_step) return;
  const at::NoGradGuard no_grad;
  if (PrunesAfter(config_, step)) GrowMasks(SparsityAfter(config_, step));
  for (size_t i = 0; i < weights_.size(); ++i) weights_[i].mul_(masks_[i].tensor);
  for (size_t i = 0; i < averages_.size(); ++i) averages_[i].mul_(masks_[i].tensor);
}

at::Tensor Pruner::Scores(size_t i) const {
  const at::Tensor size = weights_[i].detach().abs().to(at::kFloat);
  return size.masked_fill(masks_[i].tensor.logical_not(), kScoreOfDead).reshape({-1});
}

void Pruner::GrowMasks(double sparsity) {
  if (!config_.global) {
    for (size_t i = 0; i < weights_.size(); ++i) {
      const at::Tensor alive = AllButSmallest(Scores(i), PrunedOf(sparsity, weights_[i].numel()));
      masks_[i].tensor.copy_(alive.view(weights_[i].sizes()));
    }
    return;
  }
  std::vector<at::Tensor> scores;
  for (size_t i = 0; i < weights_.size(); ++i) scores.push_back(Scores(i));
  const at::Tensor all = at::cat(scores);
  const at::Tensor alive = AllButSmallest(all, PrunedOf(sparsity, all.numel()));
  int64_t offset = 0;
  for (size_t i = 0; i < weights_.size(); ++i) {
    const int64_t count = weights_[i].numel();
    masks_[i].tensor.copy_(alive.narrow(0, offset, count).view(weights_[i].sizes()));
    offset += count;
  }
}

std::vector<int64_t> Pruner::GrowingBytes() const {
  std::vector<int64_t> bytes;
  int64_t sorted = 0;  // scores at once
  for (const at::Tensor& weight : weights_) {
    if (config_.global) bytes.push_back(weight.numel() * kScoreBytes);
    sorted = config_.global ? sorted + weight.numel() : std::max(sorted, weight.numel());
  }
  for (const int64_t per_score : {kScoreBytes, kAliveBytes, kScoreBytes, kPlaceBytes, kSortBytes})
    bytes.push_back(sorted * per_score);
  return bytes;
}

double Pruner::Sparsity() const {
  int64_t zeros = 0, count = 0;
  for (const at::Tensor& weight : weights_) {
    zeros += weight.numel() - at::count_nonzero(weight.detach()).item<int64_t>();
    count += weight.numel();
  }
  return static_cast<double>(zeros) / static_cast<double>(count);
}

}  // namespace muster::worker
