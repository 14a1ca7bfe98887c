// How data that are put together from other data are called, for whoever compares them: datasets,
// and muster-data, which says beforehand what ranks will compare. Pure; needs nothing of torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/data/base/sample_source.h"

namespace muster::worker {

// Of data of whose split some samples are used only (subset.h).
std::string SubsetFingerprint(const std::string& whole, Split split, uint64_t samples);

// Of several sources as one (mixture.h).
std::string MixtureFingerprint(const std::vector<std::string>& sources);

}  // namespace muster::worker
