// Several datasets as one: the samples of the first, then those of the second, and so on, in each
// split. How often training takes samples of each is the order's affair (order/mixture_order.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/base/dataset.h"

namespace muster::worker {

class Mixture : public Dataset {
 public:
  struct Source {
    std::string name;  // for people
    std::unique_ptr<Dataset> dataset;
  };
  // INVALID_ARGUMENT naming two sources that do not fit together: they must have samples of one
  // shape, the same classes, and the same pixel scale and decoding. Requires a source.
  static absl::StatusOr<std::unique_ptr<Mixture>> Create(std::vector<Source> sources);

  int64_t size(Split split) const override;
  absl::StatusOr<StoredSample> Read(Split split, int64_t id, std::string& storage) const override;
  bool in_files() const override;
  void WillRead(Split split, const std::vector<int64_t>& ids) const override;
  FileSystem* files() const override;
  int64_t IdInStorage(int64_t place) const override;
  std::vector<uint64_t> source_sizes() const override;
  int64_t bytes() const override;
  void Decode(const StoredSample& sample, const SampleSlot& slot) const override;
  const PictureDecoding* decoding() const override;
  std::string NameOf(Split split, int64_t id) const override;

 private:
  Mixture(std::vector<Source> sources, std::string fingerprint);
  struct Place {
    size_t source = 0;
    int64_t id = 0;  // in the source
  };
  Place PlaceOf(Split split, int64_t id) const;
  const Dataset& at(size_t source) const { return *sources_[source].dataset; }

  const std::vector<Source> sources_;
};

}  // namespace muster::worker
