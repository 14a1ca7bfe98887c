// Windows drawn at random within a picture, by their share of its area and their ratio of height to
// width, as torchvision's RandomResizedCrop and RandomErasing draw them. All arithmetic is in
// integers, so that every machine and every compiler draws the same window; and only the picture's
// size is asked for, so that a decoder can be told what to decode.
//
// Used by Augmenter. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "worker/data/augment/picture.h"
#include "worker/data/base/random_stream.h"

namespace muster::worker {

// What may be drawn. Requires 0 <= least_share <= most_share <= 1, and a ratio from 1 to below 16.
struct WindowRange {
  double least_share = 0, most_share = 1;  // of the area
  // Of the longer side to the shorter at most; the logarithm of height to width is uniform between
  // those of its inverse and itself.
  double most_ratio = 1;
};

// Ten tries, as torchvision's; none when no window fitted. A window's sides are at least
// 1 pixel; the picture's may have up to 2^24.
std::optional<Window> DrawWindow(int64_t height, int64_t width, const WindowRange& range,
                                 RandomStream& random);

// The largest window in the middle whose ratio is within the range: what RandomResizedCrop takes
// when nothing fitted.
Window MiddleWindow(int64_t height, int64_t width, double most_ratio);

// 2^(log2_q16 / 65536) in units of 1/2^32, to the last unit but a few. Requires 0 <= log2_q16 <
// 2^18.
uint64_t Exp2Q32(uint32_t log2_q16);

}  // namespace muster::worker
