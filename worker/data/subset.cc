#include "worker/data/subset.h"

#include <utility>

#include "common/base/check.h"
#include "worker/data/base/data_fingerprint.h"
#include "worker/data/order/permutation.h"

namespace muster::worker {
namespace {

class Subset final : public Dataset {
 public:
  Subset(std::unique_ptr<Dataset> whole, Split split, int64_t samples)
      : Dataset(whole->shape(), {whole->input_type(), whole->target_type(), whole->target_shape()},
                whole->classes(),
                SubsetFingerprint(whole->fingerprint(), split, static_cast<uint64_t>(samples)),
                whole->pixels(), whole->class_names()),
        whole_(std::move(whole)),
        split_(split),
        samples_(samples) {}

  int64_t size(Split split) const override {
    return split == split_ ? samples_ : whole_->size(split);
  }

  absl::StatusOr<StoredSample> Read(Split split, int64_t id, std::string& storage) const override {
    return whole_->Read(split, IdInWhole(split, id), storage);
  }
  bool in_files() const override { return whole_->in_files(); }
  FileSystem* files() const override { return whole_->files(); }
  void WillRead(Split split, const std::vector<int64_t>& ids) const override {
    std::vector<int64_t> in_whole;
    for (const int64_t id : ids) in_whole.push_back(IdInWhole(split, id));
    whole_->WillRead(split, in_whole);
  }
  // The same places where the training set is whole.
  int64_t IdInStorage(int64_t place) const override {
    MUSTER_CHECK(split_ != Split::kTrain, "a subset is not read in the order of storage");
    return whole_->IdInStorage(place);
  }
  std::vector<uint64_t> source_sizes() const override {
    if (split_ == Split::kTrain) return Dataset::source_sizes();
    return whole_->source_sizes();
  }
  std::string NameOf(Split split, int64_t id) const override {
    return whole_->NameOf(split, IdInWhole(split, id));
  }
  const PictureDecoding* decoding() const override { return whole_->decoding(); }

  void Decode(const StoredSample& sample, const SampleSlot& slot) const override {
    whole_->Decode(sample, slot);
  }

  int64_t bytes() const override { return whole_->bytes(); }

 private:
  int64_t IdInWhole(Split split, int64_t id) const {
    if (split != split_) return id;
    return static_cast<int64_t>(Permute(/*seed=*/0, /*round=*/0,
                                        static_cast<uint64_t>(whole_->size(split)),
                                        static_cast<uint64_t>(id)));
  }

  const std::unique_ptr<Dataset> whole_;
  const Split split_;
  const int64_t samples_;
};

}  // namespace

std::unique_ptr<Dataset> KeepSubset(std::unique_ptr<Dataset> whole, Split split, int64_t samples) {
  if (samples >= whole->size(split)) return whole;
  return std::make_unique<Subset>(std::move(whole), split, samples);
}

}  // namespace muster::worker
