#include "worker/data/order/sampler.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"

namespace muster::worker {
namespace {

// count x numerator / denominator without overflow.
uint64_t Scale(uint64_t count, uint64_t numerator, uint64_t denominator) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(count) * numerator / denominator);
}

uint64_t PositionsOf(double epochs, uint64_t samples) {
  MUSTER_CHECK(epochs > 0, "a run has a part of an epoch at least");
  const double positions = std::round(epochs * static_cast<double>(samples));
  return std::max<uint64_t>(1, static_cast<uint64_t>(positions));
}

}  // namespace

PlaceRange EvenPart(uint64_t count, uint32_t part, uint32_t parts) {
  MUSTER_CHECK(part < parts, "a part is one of all");
  return {Scale(count, part, parts), Scale(count, uint64_t{part} + 1, parts)};
}

Sampler::Sampler(uint64_t samples, uint64_t batch_size, uint64_t seed, const SampleOrder& order)
    : samples_(samples), batch_size_(batch_size), seed_(seed) {
  const uint64_t window = order.window < samples ? order.window : 0;
  if (window > 0) steps_in_window_ = (window + batch_size - 1) / batch_size;
  if (!order.phases.empty()) {
    mixture_.emplace(order.source_sizes, order.phases, window, seed);
  } else if (window > 0) {
    windows_.emplace(samples, batch_size, window, seed);
  }
}

uint64_t Sampler::StepsFor(double epochs) const {
  const uint64_t positions = PositionsOf(epochs, samples_);
  return positions / batch_size_ + (positions % batch_size_ != 0);
}

void Sampler::LimitToEpochs(double epochs) { limit_ = PositionsOf(epochs, samples_); }

uint64_t Sampler::PositionOf(uint64_t step) const { return std::min(step * batch_size_, limit_); }

uint64_t Sampler::GlobalBatch(uint64_t step) const {
  return PositionOf(step + 1) - PositionOf(step);
}

std::vector<int64_t> Sampler::Ids(uint64_t step, uint32_t rank, uint32_t world) const {
  return Ids(step, EvenPart(GlobalBatch(step), rank, world));
}

std::vector<int64_t> Sampler::Ids(uint64_t step, const PlaceRange& places) const {
  std::vector<int64_t> ids;
  ids.reserve(places.size());
  const uint64_t begin = PositionOf(step) + places.begin;
  const uint64_t end = PositionOf(step) + places.end;
  const auto add = [&ids](uint64_t id) { ids.push_back(static_cast<int64_t>(id)); };
  if (mixture_.has_value()) {
    for (uint64_t position = begin; position < end; ++position) add(mixture_->At(position));
    return ids;
  }
  if (windows_.has_value()) {
    for (uint64_t position = begin; position < end; ++position) add(windows_->At(position));
    return ids;
  }
  for (uint64_t position = begin; position < end;) {  // epoch by epoch
    const uint64_t epoch = position / samples_;
    const Permutation order(seed_, epoch, samples_);
    for (; position < end && position / samples_ == epoch; ++position)
      add(order(position % samples_));
  }
  return ids;
}

EpochPlace Sampler::PlaceOf(uint64_t step, uint64_t place) const {
  const uint64_t position = PositionOf(step) + place;
  return {position / samples_, position % samples_};
}

double Sampler::EpochAt(uint64_t step) const {
  return static_cast<double>(PositionOf(step)) / static_cast<double>(samples_);
}

}  // namespace muster::worker
