#include "worker/data/subset.h"

#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/data/sampler.h"

namespace muster::worker {
namespace {

class Subset final : public Dataset {
 public:
  Subset(std::unique_ptr<Dataset> whole, Split split, int64_t samples)
      : Dataset(whole->shape(), whole->classes(),
                absl::StrCat(whole->fingerprint(), ":", SplitName(split), "=", samples),
                whole->pixels(), whole->class_names()),
        whole_(std::move(whole)),
        split_(split),
        samples_(samples) {}

  int64_t size(Split split) const override {
    return split == split_ ? samples_ : whole_->size(split);
  }

  Part Gather(Split split, const std::vector<int64_t>& ids) const override {
    if (split != split_) return whole_->Gather(split, ids);
    std::vector<int64_t> of_whole;
    for (const int64_t id : ids) {
      of_whole.push_back(static_cast<int64_t>(Permute(/*seed=*/0, /*epoch=*/0,
                                                      static_cast<uint64_t>(whole_->size(split)),
                                                      static_cast<uint64_t>(id))));
    }
    return whole_->Gather(split, of_whole);
  }

  Part Range(Split split, int64_t begin, int64_t count) const override {
    if (split != split_) return whole_->Range(split, begin, count);
    std::vector<int64_t> ids(static_cast<size_t>(count));
    std::iota(ids.begin(), ids.end(), begin);
    return Gather(split, ids);
  }

  int64_t bytes() const override { return whole_->bytes(); }

 private:
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
