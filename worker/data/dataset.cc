#include "worker/data/dataset.h"

#include <utility>

#include "common/base/check.h"

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

Dataset::Dataset(std::array<Part, 3> parts, int64_t classes, std::string fingerprint)
    : parts_(std::move(parts)), classes_(classes), fingerprint_(std::move(fingerprint)) {
  shape_ = parts_[0].inputs.sizes().slice(1).vec();
  for (const Part& part : parts_) {
    MUSTER_CHECK(part.inputs.sizes().slice(1).vec() == shape_, "all splits have one shape");
    MUSTER_CHECK(part.targets.dim() == 1 && part.targets.size(0) == part.inputs.size(0),
                 "each sample has one target");
  }
}

int64_t Dataset::size(Split split) const { return part(split).targets.size(0); }

}  // namespace muster::worker
