#include "worker/train/step/micro_batch.h"

#include <algorithm>

namespace muster::worker {
namespace {

// Batch norm needs two samples to have a variance.
constexpr int64_t kStandIns = 2;

}  // namespace

Batch MicroBatch(const Batch& batch, int64_t index, int64_t parts) {
  if (parts == 1) return batch;
  const int64_t samples = batch.inputs.size(0);
  const PlaceRange places = EvenPart(static_cast<uint64_t>(samples), static_cast<uint32_t>(index),
                                     static_cast<uint32_t>(parts));
  int64_t begin = static_cast<int64_t>(places.begin);
  int64_t size = static_cast<int64_t>(places.size());
  Batch part = batch;
  part.count = batch.count > 0 ? size : 0;
  if (size == 0) {
    size = std::min(kStandIns, samples);
    begin = samples - size;
  }
  part.inputs = batch.inputs.narrow(0, begin, size);
  part.targets = batch.targets.narrow(0, begin, size);
  if (!batch.ids.empty())
    part.ids.assign(batch.ids.begin() + begin, batch.ids.begin() + begin + size);
  return part;
}

}  // namespace muster::worker
