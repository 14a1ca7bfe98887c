// How points are packed into one blob of metrics.db: one section for each name, so that a reader
// skips the other names without decoding them. Pure.
//
//   blob    := series*
//   series  := name_id:varint count:varint bytes:varint point{count}
//   point   := step:zigzag-delta time_ms:zigzag-delta value:8 bytes, little-endian double
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster::controller {

struct PackedPoint {
  int64_t step = 0;
  int64_t time_ms = 0;
  double value = 0;
};

// Points of each name by its id, in the order in which they were reported.
using PointsByName = std::map<uint64_t, std::vector<PackedPoint>>;

std::string PackPoints(const PointsByName& points);

// Appends the points of one name to `out`. DATA_LOSS: the blob is not one that PackPoints made.
absl::Status UnpackPoints(absl::string_view blob, uint64_t name_id, std::vector<PackedPoint>& out);
// The same for all names.
absl::Status UnpackAll(absl::string_view blob, PointsByName& out);

}  // namespace muster::controller
