// How the inputs of a model follow from pixels. Plain data: held by a dataset, used by whoever
// scales.
#pragma once

#include <vector>

namespace muster::worker {

// input = (pixel - mean) / std for each channel, pixels from 0 to 1.
struct PixelScale {
  std::vector<float> mean, std;  // one for each channel; empty: the inputs are not pixels
};

}  // namespace muster::worker
