#include "worker/agent/telemetry/metrics_intake.h"

#include <algorithm>

namespace muster::worker {

MetricsIntake::Turn MetricsIntake::TurnOf(const MetricsLine& line) {
  heard_ = std::max(heard_, line.seq);
  if (line.seq <= taken_) return Turn::kTaken;
  // In this form nothing that a rank says can overflow.
  const uint64_t missing = line.seq - taken_ - 1;
  return missing <= line.lost ? Turn::kNow : Turn::kLater;
}

std::optional<LostMetrics> MetricsIntake::LostBefore(const MetricsLine& line) const {
  if (line.seq <= taken_ + 1) return std::nullopt;
  return LostMetrics{taken_ + 1, line.seq - 1};
}

std::optional<LostMetrics> MetricsIntake::LostAtEnd() const {
  if (heard_ <= taken_) return std::nullopt;
  return LostMetrics{taken_ + 1, heard_};
}

}  // namespace muster::worker
