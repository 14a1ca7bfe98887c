#include "worker/data/index/storage_order.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

struct StoredAt {
  uint64_t offset = 0;
  uint32_t file = 0;
  uint32_t id = 0;

  friend bool operator<(const StoredAt& a, const StoredAt& b) {
    return std::pair(a.file, a.offset) < std::pair(b.file, b.offset);
  }
};

}  // namespace

absl::StatusOr<StorageOrder> StorageOrder::Of(const SampleIndex& index) {
  if (index.size() > uint64_t{1} << 32) {
    return absl::UnimplementedError(
        absl::StrCat(index.path(), " has ", index.size(),
                     " samples: a window is for at most 2^32; train without shuffle_window"));
  }
  std::vector<StoredAt> places;
  places.reserve(index.size());
  for (uint64_t id = 0; id < index.size(); ++id) {
    MUSTER_ASSIGN_OR_RETURN(const FoundSample sample, index.At(id));
    places.push_back({sample.offset, sample.file, static_cast<uint32_t>(id)});
  }
  StorageOrder order;
  if (std::is_sorted(places.begin(), places.end())) return order;
  std::sort(places.begin(), places.end());
  for (const StoredAt& place : places) order.ids_.push_back(place.id);
  return order;
}

std::string StorageOrder::fingerprint() const {
  if (ids_.empty()) return "";
  return absl::StrCat(absl::Hex(XXH3_64bits(ids_.data(), ids_.size() * sizeof(uint32_t))));
}

}  // namespace muster::worker
