#include "worker/data/order/mixture_order.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "worker/data/order/permutation.h"

namespace muster::worker {
namespace {

// Purpose numbers of DeriveSeed: part of the result, never changed.
constexpr uint64_t kSourcePurpose = 0x736f75726365;     // "source"
constexpr uint64_t kMixturePurpose = 0x6d697874757265;  // "mixture"

// Whole numbers that add to `count`, as near to the weights as they can be: what rounding down
// leaves goes to the largest remainders, the first of equals first. In a block of MixtureOrder a
// weight above 0 has one at least.
std::vector<uint64_t> Apportion(const std::vector<double>& weights, uint64_t count) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<uint64_t> shares;
  std::vector<std::pair<double, size_t>> remainders;  // negative, so that the largest sort first
  for (size_t i = 0; i < weights.size(); ++i) {
    const double exact = weights[i] / sum * static_cast<double>(count);
    shares.push_back(static_cast<uint64_t>(exact));
    remainders.emplace_back(static_cast<double>(shares.back()) - exact, i);
  }
  std::sort(remainders.begin(), remainders.end());
  uint64_t left = count - std::accumulate(shares.begin(), shares.end(), uint64_t{0});
  for (size_t i = 0; left > 0; i = (i + 1) % remainders.size()) {
    const size_t source = remainders[i].second;
    if (weights[source] == 0) continue;
    ++shares[source];
    --left;
  }
  return shares;
}

std::vector<uint64_t> ApportionBlock(const std::vector<double>& weights) {
  std::vector<uint64_t> shares = Apportion(weights, MixtureOrder::kBlock);
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0 || shares[i] > 0) continue;
    ++shares[i];
    --*std::max_element(shares.begin(), shares.end());
  }
  return shares;
}

}  // namespace

MixtureOrder::MixtureOrder(const std::vector<uint64_t>& sizes,
                           const std::vector<MixturePhase>& phases, uint64_t window, uint64_t seed)
    : seed_(seed) {
  MUSTER_CHECK(!phases.empty() && phases.front().begin == 0,
               "a mixture has weights from the start");
  MUSTER_CHECK(sizes.size() <= kBlock, "each source has a share of a block");
  uint64_t begin = 0;
  for (const uint64_t size : sizes) {
    Source source{begin, size, DeriveSeed(seed, kSourcePurpose, sources_.size()), std::nullopt};
    if (window > 0 && window < size) source.windows.emplace(size, 1, window, source.seed);
    sources_.push_back(source);
    begin += size;
  }
  std::vector<uint64_t> drawn(sizes.size(), 0);
  for (size_t i = 0; i < phases.size(); ++i) {
    Phase phase;
    phase.begin = phases[i].begin;
    phase.end = i + 1 < phases.size() ? phases[i + 1].begin : UINT64_MAX;
    phase.weights = phases[i].weights;
    MUSTER_CHECK(phase.begin < phase.end, "phases begin one after the other");
    MUSTER_CHECK(phase.weights.size() == sizes.size(), "each source has a weight");
    phase.in_block = ApportionBlock(phase.weights);
    phase.before = drawn;
    if (i + 1 < phases.size()) {
      const uint64_t positions = phase.end - phase.begin;
      const std::vector<uint64_t> rest = Apportion(phase.weights, positions % kBlock);
      for (size_t source = 0; source < drawn.size(); ++source)
        drawn[source] += positions / kBlock * phase.in_block[source] + rest[source];
    }
    phases_.push_back(std::move(phase));
  }
}

const MixtureOrder::Phase& MixtureOrder::PhaseAt(uint64_t position) const {
  const auto next =
      std::upper_bound(phases_.begin(), phases_.end(), position,
                       [](uint64_t p, const Phase& phase) { return p < phase.begin; });
  return *(next - 1);
}

uint64_t MixtureOrder::Source::Drawn(uint64_t number) const {
  if (windows.has_value()) return begin + windows->At(number);
  return begin + Permute(seed, number / size, size, number % size);
}

uint64_t MixtureOrder::At(uint64_t position) const {
  const Phase& phase = PhaseAt(position);
  const uint64_t block = (position - phase.begin) / kBlock;
  const uint64_t block_begin = phase.begin + block * kBlock;
  const uint64_t size = std::min(kBlock, phase.end - block_begin);
  // The last block of a phase may be a part of one.
  const std::vector<uint64_t> shares =
      size == kBlock ? phase.in_block : Apportion(phase.weights, size);
  // The block's draws lie source by source; this one is drawn at random of those that are left.
  uint64_t draw =
      Permute(DeriveSeed(seed_, kMixturePurpose), block_begin, size, position - block_begin);
  size_t source = 0;
  for (; draw >= shares[source]; ++source) draw -= shares[source];
  const uint64_t number = phase.before[source] + block * phase.in_block[source] + draw;
  return sources_[source].Drawn(number);
}

}  // namespace muster::worker
