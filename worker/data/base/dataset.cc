#include "worker/data/base/dataset.h"

#include <ATen/ops/empty.h>

#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace muster::worker {
namespace {

std::array<Dataset::Part, 3> OneAfterTheOther(std::array<Dataset::Part, 3> parts) {
  for (Dataset::Part& part : parts) part = {part.inputs.contiguous(), part.targets.contiguous()};
  return parts;
}

}  // namespace

Dataset::Dataset(std::vector<int64_t> shape, Types types, int64_t classes, std::string fingerprint,
                 PixelScale pixels, std::vector<std::string> class_names)
    : shape_(std::move(shape)),
      types_(std::move(types)),
      classes_(classes),
      fingerprint_(std::move(fingerprint)),
      pixels_(std::move(pixels)),
      class_names_(std::move(class_names)) {}

void Dataset::Decode(const StoredSample& sample, const SampleSlot& slot) const {
  std::memcpy(slot.input, sample.input.data(), sample.input.size());
  std::memcpy(slot.target, sample.target.data(), sample.target.size());
}

std::string Dataset::NameOf(Split split, int64_t id) const {
  return absl::StrCat("sample ", id, " of the ", SplitName(split), " set");
}

Dataset::Part Dataset::Gather(Split split, const std::vector<int64_t>& ids) const {
  const BatchSlots slots(*this, input_type(), static_cast<int64_t>(ids.size()));
  std::string storage;
  for (size_t i = 0; i < ids.size(); ++i) {
    const absl::StatusOr<StoredSample> sample = Read(split, ids[i], storage);
    MUSTER_CHECK(sample.ok(), "samples in memory can be read");
    Decode(*sample, slots[static_cast<int64_t>(i)]);
  }
  return slots.part();
}

Dataset::Part Dataset::Range(Split split, int64_t begin, int64_t count) const {
  std::vector<int64_t> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), begin);
  return Gather(split, ids);
}

at::Tensor BatchSlots::NewTensor(const std::vector<int64_t>& sizes, c10::ScalarType type) {
  return at::empty(sizes, at::TensorOptions(type));
}

BatchSlots::BatchSlots(const Dataset& dataset, c10::ScalarType input_type, int64_t samples,
                       const MakeTensor& make) {
  const auto sizes = [samples](std::vector<int64_t> shape) {
    shape.insert(shape.begin(), samples);
    return shape;
  };
  if (input_type == at::kByte && dataset.decoding() != nullptr) {
    const std::vector<int64_t>& shape = dataset.shape();
    part_.inputs = make(sizes({shape[1], shape[2], shape[0]}), input_type).permute({0, 3, 1, 2});
  } else {
    part_.inputs = make(sizes(dataset.shape()), input_type);
  }
  part_.targets = make(sizes(dataset.target_shape()), dataset.target_type());
  if (samples == 0) return;
  input_bytes_ = static_cast<int64_t>(part_.inputs.nbytes()) / samples;
  target_bytes_ = static_cast<int64_t>(part_.targets.nbytes()) / samples;
  inputs_ = static_cast<char*>(part_.inputs.mutable_data_ptr());
  targets_ = static_cast<char*>(part_.targets.mutable_data_ptr());
}

InMemoryDataset::InMemoryDataset(std::array<Part, 3> parts, int64_t classes,
                                 std::string fingerprint, PixelScale pixels,
                                 std::vector<std::string> class_names)
    : Dataset(parts[0].inputs.sizes().slice(1).vec(),
              {parts[0].inputs.scalar_type(), parts[0].targets.scalar_type(),
               parts[0].targets.sizes().slice(1).vec()},
              classes, std::move(fingerprint), std::move(pixels), std::move(class_names)),
      parts_(OneAfterTheOther(std::move(parts))) {
  for (const Part& part : parts_) {
    MUSTER_CHECK(part.inputs.sizes().slice(1).vec() == shape(), "all splits have one shape");
    MUSTER_CHECK(part.targets.size(0) == part.inputs.size(0), "each sample has its target");
    MUSTER_CHECK(part.inputs.scalar_type() != at::kByte || !this->pixels().mean.empty(),
                 "bytes are pixels with a scale");
  }
  for (size_t i = 0; i < parts_.size(); ++i) {
    inputs_[i] = RowsOf(parts_[i].inputs);
    targets_[i] = RowsOf(parts_[i].targets);
  }
}

InMemoryDataset::Rows InMemoryDataset::RowsOf(const at::Tensor& tensor) {
  if (tensor.size(0) == 0) return {};
  return {static_cast<const char*>(tensor.const_data_ptr()),
          tensor.nbytes() / static_cast<size_t>(tensor.size(0))};
}

int64_t InMemoryDataset::size(Split split) const { return part(split).targets.size(0); }

absl::StatusOr<StoredSample> InMemoryDataset::Read(Split split, int64_t id,
                                                   std::string& /*storage*/) const {
  MUSTER_CHECK(id >= 0 && id < size(split), "a sample's id lies in its set");
  const auto index = static_cast<size_t>(split);
  return StoredSample{inputs_[index][id], targets_[index][id]};
}

int64_t InMemoryDataset::bytes() const {
  int64_t total = 0;
  for (const Part& part : parts_)
    total += static_cast<int64_t>(part.inputs.nbytes() + part.targets.nbytes());
  return total;
}

}  // namespace muster::worker
