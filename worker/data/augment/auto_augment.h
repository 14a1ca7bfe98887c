// The policies that AutoAugment found (Cubuk et al. 2019, "AutoAugment: Learning augmentation
// strategies from data", tables 7 to 9; the figures are torchvision's). Plain tables.
//
// Used by Augmenter.
#pragma once

#include <array>

#include "worker/data/augment/policy_ops.h"

namespace muster::worker {

// By the data it was found on.
enum class AutoAugmentPolicy { kNone, kImageNet, kCifar10, kSvhn };

struct PolicyStep {
  PolicyOp op = PolicyOp::kIdentity;
  double chance = 0;
  int magnitude = 0;  // 0 to kMostAutoMagnitude
};

// One is drawn for each picture; its steps are done one after the other, each with its chance.
using SubPolicy = std::array<PolicyStep, 2>;
inline constexpr int kSubPolicies = 25;

// Of any policy but kNone.
const std::array<SubPolicy, kSubPolicies>& SubPoliciesOf(AutoAugmentPolicy policy);

}  // namespace muster::worker
