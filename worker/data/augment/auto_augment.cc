#include "worker/data/augment/auto_augment.h"

namespace muster::worker {
namespace {

using SubPolicies = std::array<SubPolicy, kSubPolicies>;

constexpr SubPolicies kImageNet = {{
    {{{PolicyOp::kPosterize, 0.4, 8}, {PolicyOp::kRotate, 0.6, 9}}},
    {{{PolicyOp::kSolarize, 0.6, 5}, {PolicyOp::kAutoContrast, 0.6, 0}}},
    {{{PolicyOp::kEqualize, 0.8, 0}, {PolicyOp::kEqualize, 0.6, 0}}},
    {{{PolicyOp::kPosterize, 0.6, 7}, {PolicyOp::kPosterize, 0.6, 6}}},
    {{{PolicyOp::kEqualize, 0.4, 0}, {PolicyOp::kSolarize, 0.2, 4}}},
    {{{PolicyOp::kEqualize, 0.4, 0}, {PolicyOp::kRotate, 0.8, 8}}},
    {{{PolicyOp::kSolarize, 0.6, 3}, {PolicyOp::kEqualize, 0.6, 0}}},
    {{{PolicyOp::kPosterize, 0.8, 5}, {PolicyOp::kEqualize, 1.0, 0}}},
    {{{PolicyOp::kRotate, 0.2, 3}, {PolicyOp::kSolarize, 0.6, 8}}},
    {{{PolicyOp::kEqualize, 0.6, 0}, {PolicyOp::kPosterize, 0.4, 6}}},
    {{{PolicyOp::kRotate, 0.8, 8}, {PolicyOp::kColor, 0.4, 0}}},
    {{{PolicyOp::kRotate, 0.4, 9}, {PolicyOp::kEqualize, 0.6, 0}}},
    {{{PolicyOp::kEqualize, 0.0, 0}, {PolicyOp::kEqualize, 0.8, 0}}},
    {{{PolicyOp::kInvert, 0.6, 0}, {PolicyOp::kEqualize, 1.0, 0}}},
    {{{PolicyOp::kColor, 0.6, 4}, {PolicyOp::kContrast, 1.0, 8}}},
    {{{PolicyOp::kRotate, 0.8, 8}, {PolicyOp::kColor, 1.0, 2}}},
    {{{PolicyOp::kColor, 0.8, 8}, {PolicyOp::kSolarize, 0.8, 7}}},
    {{{PolicyOp::kSharpness, 0.4, 7}, {PolicyOp::kInvert, 0.6, 0}}},
    {{{PolicyOp::kShearX, 0.6, 5}, {PolicyOp::kEqualize, 1.0, 0}}},
    {{{PolicyOp::kColor, 0.4, 0}, {PolicyOp::kEqualize, 0.6, 0}}},
    {{{PolicyOp::kEqualize, 0.4, 0}, {PolicyOp::kSolarize, 0.2, 4}}},
    {{{PolicyOp::kSolarize, 0.6, 5}, {PolicyOp::kAutoContrast, 0.6, 0}}},
    {{{PolicyOp::kInvert, 0.6, 0}, {PolicyOp::kEqualize, 1.0, 0}}},
    {{{PolicyOp::kColor, 0.6, 4}, {PolicyOp::kContrast, 1.0, 8}}},
    {{{PolicyOp::kEqualize, 0.8, 0}, {PolicyOp::kEqualize, 0.6, 0}}},
}};

constexpr SubPolicies kCifar10 = {{
    {{{PolicyOp::kInvert, 0.1, 0}, {PolicyOp::kContrast, 0.2, 6}}},
    {{{PolicyOp::kRotate, 0.7, 2}, {PolicyOp::kTranslateX, 0.3, 9}}},
    {{{PolicyOp::kSharpness, 0.8, 1}, {PolicyOp::kSharpness, 0.9, 3}}},
    {{{PolicyOp::kShearY, 0.5, 8}, {PolicyOp::kTranslateY, 0.7, 9}}},
    {{{PolicyOp::kAutoContrast, 0.5, 0}, {PolicyOp::kEqualize, 0.9, 0}}},
    {{{PolicyOp::kShearY, 0.2, 7}, {PolicyOp::kPosterize, 0.3, 7}}},
    {{{PolicyOp::kColor, 0.4, 3}, {PolicyOp::kBrightness, 0.6, 7}}},
    {{{PolicyOp::kSharpness, 0.3, 9}, {PolicyOp::kBrightness, 0.7, 9}}},
    {{{PolicyOp::kEqualize, 0.6, 0}, {PolicyOp::kEqualize, 0.5, 0}}},
    {{{PolicyOp::kContrast, 0.6, 7}, {PolicyOp::kSharpness, 0.6, 5}}},
    {{{PolicyOp::kColor, 0.7, 7}, {PolicyOp::kTranslateX, 0.5, 8}}},
    {{{PolicyOp::kEqualize, 0.3, 0}, {PolicyOp::kAutoContrast, 0.4, 0}}},
    {{{PolicyOp::kTranslateY, 0.4, 3}, {PolicyOp::kSharpness, 0.2, 6}}},
    {{{PolicyOp::kBrightness, 0.9, 6}, {PolicyOp::kColor, 0.2, 8}}},
    {{{PolicyOp::kSolarize, 0.5, 2}, {PolicyOp::kInvert, 0.0, 0}}},
    {{{PolicyOp::kEqualize, 0.2, 0}, {PolicyOp::kAutoContrast, 0.6, 0}}},
    {{{PolicyOp::kEqualize, 0.2, 0}, {PolicyOp::kEqualize, 0.6, 0}}},
    {{{PolicyOp::kColor, 0.9, 9}, {PolicyOp::kEqualize, 0.6, 0}}},
    {{{PolicyOp::kAutoContrast, 0.8, 0}, {PolicyOp::kSolarize, 0.2, 8}}},
    {{{PolicyOp::kBrightness, 0.1, 3}, {PolicyOp::kColor, 0.7, 0}}},
    {{{PolicyOp::kSolarize, 0.4, 5}, {PolicyOp::kAutoContrast, 0.9, 0}}},
    {{{PolicyOp::kTranslateY, 0.9, 9}, {PolicyOp::kTranslateY, 0.7, 9}}},
    {{{PolicyOp::kAutoContrast, 0.9, 0}, {PolicyOp::kSolarize, 0.8, 3}}},
    {{{PolicyOp::kEqualize, 0.8, 0}, {PolicyOp::kInvert, 0.1, 0}}},
    {{{PolicyOp::kTranslateY, 0.7, 9}, {PolicyOp::kAutoContrast, 0.9, 0}}},
}};

constexpr SubPolicies kSvhn = {{
    {{{PolicyOp::kShearX, 0.9, 4}, {PolicyOp::kInvert, 0.2, 0}}},
    {{{PolicyOp::kShearY, 0.9, 8}, {PolicyOp::kInvert, 0.7, 0}}},
    {{{PolicyOp::kEqualize, 0.6, 0}, {PolicyOp::kSolarize, 0.6, 6}}},
    {{{PolicyOp::kInvert, 0.9, 0}, {PolicyOp::kEqualize, 0.6, 0}}},
    {{{PolicyOp::kEqualize, 0.6, 0}, {PolicyOp::kRotate, 0.9, 3}}},
    {{{PolicyOp::kShearX, 0.9, 4}, {PolicyOp::kAutoContrast, 0.8, 0}}},
    {{{PolicyOp::kShearY, 0.9, 8}, {PolicyOp::kInvert, 0.4, 0}}},
    {{{PolicyOp::kShearY, 0.9, 5}, {PolicyOp::kSolarize, 0.2, 6}}},
    {{{PolicyOp::kInvert, 0.9, 0}, {PolicyOp::kAutoContrast, 0.8, 0}}},
    {{{PolicyOp::kEqualize, 0.6, 0}, {PolicyOp::kRotate, 0.9, 3}}},
    {{{PolicyOp::kShearX, 0.9, 4}, {PolicyOp::kSolarize, 0.3, 3}}},
    {{{PolicyOp::kShearY, 0.8, 8}, {PolicyOp::kInvert, 0.7, 0}}},
    {{{PolicyOp::kEqualize, 0.9, 0}, {PolicyOp::kTranslateY, 0.6, 6}}},
    {{{PolicyOp::kInvert, 0.9, 0}, {PolicyOp::kEqualize, 0.6, 0}}},
    {{{PolicyOp::kContrast, 0.3, 3}, {PolicyOp::kRotate, 0.8, 4}}},
    {{{PolicyOp::kInvert, 0.8, 0}, {PolicyOp::kTranslateY, 0.0, 2}}},
    {{{PolicyOp::kShearY, 0.7, 6}, {PolicyOp::kSolarize, 0.4, 8}}},
    {{{PolicyOp::kInvert, 0.6, 0}, {PolicyOp::kRotate, 0.8, 4}}},
    {{{PolicyOp::kShearY, 0.3, 7}, {PolicyOp::kTranslateX, 0.9, 3}}},
    {{{PolicyOp::kShearX, 0.1, 6}, {PolicyOp::kInvert, 0.6, 0}}},
    {{{PolicyOp::kSolarize, 0.7, 2}, {PolicyOp::kTranslateY, 0.6, 7}}},
    {{{PolicyOp::kShearY, 0.8, 4}, {PolicyOp::kInvert, 0.8, 0}}},
    {{{PolicyOp::kShearX, 0.7, 9}, {PolicyOp::kTranslateY, 0.8, 3}}},
    {{{PolicyOp::kShearY, 0.8, 5}, {PolicyOp::kAutoContrast, 0.7, 0}}},
    {{{PolicyOp::kShearX, 0.7, 2}, {PolicyOp::kInvert, 0.1, 0}}},
}};

}  // namespace

const std::array<SubPolicy, kSubPolicies>& SubPoliciesOf(AutoAugmentPolicy policy) {
  switch (policy) {
    case AutoAugmentPolicy::kCifar10:
      return kCifar10;
    case AutoAugmentPolicy::kSvhn:
      return kSvhn;
    default:
      return kImageNet;
  }
}

}  // namespace muster::worker
