#include "worker/data/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "common/base/check.h"
#include "common/base/rng.h"

namespace muster::worker {
namespace {

// Purpose numbers of DeriveSeed: part of the result, never changed.
constexpr uint64_t kOrderPurpose = 0x6f72646572;  // "order"
// Luby and Rackoff: 4 rounds give a pseudo-random permutation of large domains; small ones want
// more.
constexpr uint64_t kRounds = 8;

// An even number of bits, so that both halves are equal; the domain is below 4 times the size, and
// walking out of it takes few turns.
int HalfBits(uint64_t size) {
  const int bits = std::max(2, static_cast<int>(std::bit_width(size - 1)));
  return (bits + 1) / 2;
}

// The order of one epoch. What a round's key owes to seed and epoch is worked out once.
class EpochOrder {
 public:
  EpochOrder(uint64_t seed, uint64_t epoch, uint64_t size)
      : size_(size), half_bits_(HalfBits(size)) {
    const uint64_t key = DeriveSeed(seed, kOrderPurpose, epoch);
    for (uint64_t round = 0; round < kRounds; ++round)
      keys_[round] = SplitMix64(SplitMix64(key) ^ round);
  }

  uint64_t operator()(uint64_t place) const {
    if (size_ == 1) return 0;
    // The cipher is a permutation of a domain that holds [0, size): from a place inside, repeating
    // it comes back inside, at a place that no other start reaches.
    do {
      place = Encrypt(place);
    } while (place >= size_);
    return place;
  }

 private:
  uint64_t Encrypt(uint64_t value) const {
    const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
    uint64_t left = value >> half_bits_;
    uint64_t right = value & mask;
    for (const uint64_t key : keys_) {
      const uint64_t mixed = left ^ (SplitMix64(key ^ right) & mask);  // DeriveSeed's last step
      left = right;
      right = mixed;
    }
    return left << half_bits_ | right;
  }

  uint64_t size_;
  int half_bits_;
  std::array<uint64_t, kRounds> keys_;
};

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

uint64_t Permute(uint64_t seed, uint64_t epoch, uint64_t size, uint64_t place) {
  MUSTER_CHECK(place < size, "a place lies in the set");
  return EpochOrder(seed, epoch, size)(place);
}

Shard ShardOf(uint64_t count, uint32_t rank, uint32_t world) {
  MUSTER_CHECK(rank < world, "a rank lies in its world");
  return {Scale(count, rank, world), Scale(count, uint64_t{rank} + 1, world)};
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
  return Ids(step, ShardOf(GlobalBatch(step), rank, world));
}

std::vector<int64_t> Sampler::Ids(uint64_t step, const Shard& places) const {
  std::vector<int64_t> ids;
  ids.reserve(places.size());
  uint64_t epoch = (PositionOf(step) + places.begin) / samples_;
  EpochOrder order(seed_, epoch, samples_);
  for (uint64_t j = places.begin; j < places.end; ++j) {
    const uint64_t position = PositionOf(step) + j;
    if (position / samples_ != epoch) {
      epoch = position / samples_;
      order = EpochOrder(seed_, epoch, samples_);
    }
    ids.push_back(static_cast<int64_t>(order(position % samples_)));
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
