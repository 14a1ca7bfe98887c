#include "worker/data/base/random_stream.h"

#include <algorithm>
#include <cmath>

namespace muster::worker {
namespace {

// Above 0 and below 1.
double OpenUniform(RandomStream& random) {
  return (static_cast<double>(random.Bits() >> 12) + 0.5) * 0x1.0p-52;
}

// Joehnk 1964, in logarithms so that the powers of small alphas do not vanish. At 1, half of the
// tries are taken.
double BetaUpToOne(double alpha, RandomStream& random) {
  for (;;) {
    const double log_x = std::log(OpenUniform(random)) / alpha;
    const double log_y = std::log(OpenUniform(random)) / alpha;
    const double most = std::max(log_x, log_y);
    const double log_sum = most + std::log(std::exp(log_x - most) + std::exp(log_y - most));
    if (log_sum <= 0) return std::exp(log_x - log_sum);
  }
}

// Algorithm BB of Cheng 1978 for equal parameters: fewer than two tries on average.
double BetaAboveOne(double alpha, RandomStream& random) {
  for (;;) {
    const double first = OpenUniform(random), second = OpenUniform(random);
    const double v = std::log(first / (1 - first)) / std::sqrt(alpha);
    const double w = alpha * std::exp(v);
    const double r = (alpha + std::sqrt(alpha)) * v - std::log(4.0);
    const double bound = r + 2 * alpha * std::log(2 * alpha / (alpha + w));
    if (bound >= std::log(first * first * second)) return w / (alpha + w);
  }
}

}  // namespace

double RandomStream::Beta(double alpha) {
  return alpha <= 1 ? BetaUpToOne(alpha, *this) : BetaAboveOne(alpha, *this);
}

}  // namespace muster::worker
