#include "worker/data/dataset.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>

#include <cstring>
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

Dataset::Dataset(std::vector<int64_t> shape, int64_t classes, std::string fingerprint,
                 PixelScale pixels)
    : shape_(std::move(shape)),
      classes_(classes),
      fingerprint_(std::move(fingerprint)),
      pixels_(std::move(pixels)) {}

InMemoryDataset::InMemoryDataset(std::array<Part, 3> parts, int64_t classes,
                                 std::string fingerprint, PixelScale pixels)
    : Dataset(parts[0].inputs.sizes().slice(1).vec(), classes, std::move(fingerprint),
              std::move(pixels)),
      parts_(std::move(parts)) {
  for (const Part& part : parts_) {
    MUSTER_CHECK(part.inputs.sizes().slice(1).vec() == shape(), "all splits have one shape");
    MUSTER_CHECK(part.targets.size(0) == part.inputs.size(0), "each sample has its target");
    MUSTER_CHECK(part.inputs.scalar_type() != at::kByte || !this->pixels().mean.empty(),
                 "bytes are pixels with a scale");
  }
}

int64_t InMemoryDataset::size(Split split) const { return part(split).targets.size(0); }

Dataset::Part InMemoryDataset::Gather(Split split, const std::vector<int64_t>& ids) const {
  const at::Tensor index = at::empty({static_cast<int64_t>(ids.size())}, at::kLong);
  std::memcpy(index.mutable_data_ptr(), ids.data(), ids.size() * sizeof(int64_t));
  return {at::index_select(part(split).inputs, 0, index),
          at::index_select(part(split).targets, 0, index)};
}

Dataset::Part InMemoryDataset::Range(Split split, int64_t begin, int64_t count) const {
  return {part(split).inputs.narrow(0, begin, count), part(split).targets.narrow(0, begin, count)};
}

int64_t InMemoryDataset::bytes() const {
  int64_t total = 0;
  for (const Part& part : parts_)
    total += static_cast<int64_t>(part.inputs.nbytes() + part.targets.nbytes());
  return total;
}

}  // namespace muster::worker
