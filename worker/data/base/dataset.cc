#include "worker/data/base/dataset.h"

#include <ATen/ops/empty.h>

#include <cstring>
#include <utility>

#include "common/base/check.h"

namespace muster::worker {
namespace {

// index_select with less around it: of small rows, that is most of what it takes.
at::Tensor Rows(const at::Tensor& from, const std::vector<int64_t>& ids) {
  std::vector<int64_t> sizes = from.sizes().vec();
  sizes[0] = static_cast<int64_t>(ids.size());
  const at::Tensor rows = at::empty(sizes, from.options());
  const size_t bytes = from.size(0) == 0 ? 0 : from.nbytes() / static_cast<size_t>(from.size(0));
  const char* source = static_cast<const char*>(from.const_data_ptr());
  char* target = static_cast<char*>(rows.mutable_data_ptr());
  for (const int64_t id : ids) {
    MUSTER_CHECK(id >= 0 && id < from.size(0), "a sample's id lies in its set");
    std::memcpy(target, source + static_cast<size_t>(id) * bytes, bytes);
    target += bytes;
  }
  return rows;
}

std::array<Dataset::Part, 3> OneAfterTheOther(std::array<Dataset::Part, 3> parts) {
  for (Dataset::Part& part : parts) part = {part.inputs.contiguous(), part.targets.contiguous()};
  return parts;
}

}  // namespace

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
                 PixelScale pixels, std::vector<std::string> class_names)
    : shape_(std::move(shape)),
      classes_(classes),
      fingerprint_(std::move(fingerprint)),
      pixels_(std::move(pixels)),
      class_names_(std::move(class_names)) {}

InMemoryDataset::InMemoryDataset(std::array<Part, 3> parts, int64_t classes,
                                 std::string fingerprint, PixelScale pixels,
                                 std::vector<std::string> class_names)
    : Dataset(parts[0].inputs.sizes().slice(1).vec(), classes, std::move(fingerprint),
              std::move(pixels), std::move(class_names)),
      parts_(OneAfterTheOther(std::move(parts))) {
  for (const Part& part : parts_) {
    MUSTER_CHECK(part.inputs.sizes().slice(1).vec() == shape(), "all splits have one shape");
    MUSTER_CHECK(part.targets.size(0) == part.inputs.size(0), "each sample has its target");
    MUSTER_CHECK(part.inputs.scalar_type() != at::kByte || !this->pixels().mean.empty(),
                 "bytes are pixels with a scale");
  }
}

int64_t InMemoryDataset::size(Split split) const { return part(split).targets.size(0); }

Dataset::Part InMemoryDataset::Gather(Split split, const std::vector<int64_t>& ids) const {
  return {Rows(part(split).inputs, ids), Rows(part(split).targets, ids)};
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
