#include "worker/data/dataset.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "worker/data/sampler.h"

namespace muster::worker {

const char* SplitName(Split split) {
  switch (split) {
    case Split::kTrain:
      return "train";
    case Split::kValidation:
      return "validation";
    case Split::kTest:
      return "test";
  }
  return "unknown";
}

Dataset::Dataset(std::array<Part, 3> parts, int64_t classes, std::string fingerprint,
                 PixelScale pixels)
    : parts_(std::move(parts)),
      classes_(classes),
      fingerprint_(std::move(fingerprint)),
      pixels_(std::move(pixels)) {
  shape_ = parts_[0].inputs.sizes().slice(1).vec();
  for (const Part& part : parts_) {
    MUSTER_CHECK(part.inputs.sizes().slice(1).vec() == shape_, "all splits have one shape");
    MUSTER_CHECK(part.targets.size(0) == part.inputs.size(0), "each sample has its target");
    MUSTER_CHECK(part.inputs.scalar_type() != at::kByte || !pixels_.mean.empty(),
                 "bytes are pixels with a scale");
  }
}

void Dataset::KeepSubset(Split split, int64_t samples) {
  const int64_t all = size(split);
  if (samples >= all) return;
  at::Tensor index = at::empty({samples}, at::kLong);
  for (int64_t i = 0; i < samples; ++i) {
    index.mutable_data_ptr<int64_t>()[i] = static_cast<int64_t>(
        Permute(/*seed=*/0, /*epoch=*/0, static_cast<uint64_t>(all), static_cast<uint64_t>(i)));
  }
  Part& kept = parts_[static_cast<size_t>(split)];
  kept.inputs = at::index_select(kept.inputs, 0, index);
  kept.targets = at::index_select(kept.targets, 0, index);
  absl::StrAppend(&fingerprint_, ":", SplitName(split), "=", samples);
}

int64_t Dataset::size(Split split) const { return part(split).targets.size(0); }

}  // namespace muster::worker
