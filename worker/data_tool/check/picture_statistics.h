// What the pictures of a split are like: sizes, kinds, classes, and the mean and standard deviation
// of each channel, as train.data.images wants them.
//
// Used by `muster-data stats`. Threads of its own; whole numbers are added up, so that the figures
// are the same bits for any number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "worker/data/index/sample_index.h"

namespace muster::worker {

struct StatisticsOptions {
  int threads = 1;
  uint64_t decoded = 10'000;  // pictures at most for means; the first of a shuffle always the same
  std::function<void()> progress = [] {};  // after each picture, and each that is decoded
};

struct Spread {
  uint64_t least = 0, median = 0, greatest = 0;
};

struct ClassCount {
  int64_t label = 0;
  uint64_t samples = 0;
};

struct PictureStatistics {
  uint64_t samples = 0;
  uint64_t unreadable = 0;          // no picture by its header
  std::vector<ClassCount> classes;  // that have samples, by label; kNoLabel among them
  Spread widths, heights, bytes;    // of pictures as they are stored
  // "JPEG", "progressive JPEG", "grey JPEG", "CMYK JPEG", "PNG", "WebP"; a picture counts once for
  // each.
  std::map<std::string, uint64_t> kinds;
  uint64_t turned = 0;  // that EXIF says are to be turned
  uint64_t decoded = 0;
  uint64_t not_decoded = 0;  // that were to be, but are broken
  // Of pixels from 0 to 1 of the middle square, resized to 224: what evaluation sees.
  std::array<double, 3> mean = {}, std = {};
};

// CANCELLED, a broken index, or the file system's codes.
absl::StatusOr<PictureStatistics> GatherStatistics(FileSystem& data, const SampleIndex& index,
                                                   const StatisticsOptions& options);

}  // namespace muster::worker
