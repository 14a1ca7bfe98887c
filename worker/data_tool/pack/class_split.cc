#include "worker/data_tool/pack/class_split.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace muster::worker {

uint64_t KeyHash(absl::string_view key, uint64_t seed) {
  return ::XXH3_64bits_withSeed(key.data(), key.size(), seed);
}

std::vector<uint8_t> SplitByClass(const std::vector<HashedSample>& samples, double validation,
                                  double test) {
  std::vector<uint64_t> order(samples.size());
  std::iota(order.begin(), order.end(), uint64_t{0});
  std::sort(order.begin(), order.end(), [&](uint64_t a, uint64_t b) {
    return std::tie(samples[a].label, samples[a].hash, a) <
           std::tie(samples[b].label, samples[b].hash, b);
  });
  std::vector<uint8_t> parts(samples.size(), 0);
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    const int64_t label = samples[order[begin]].label;
    while (end < order.size() && samples[order[end]].label == label) ++end;
    const auto count = static_cast<double>(end - begin);
    const auto first = static_cast<size_t>(std::lround(count * validation));
    const auto last =
        std::min<size_t>(end - begin, first + static_cast<size_t>(std::lround(count * test)));
    for (size_t i = 0; i < last; ++i) parts[order[begin + i]] = i < first ? 1 : 2;
  }
  return parts;
}

}  // namespace muster::worker
