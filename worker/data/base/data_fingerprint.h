// How data are called, for whoever compares them: datasets, and muster-data, which says beforehand
// what ranks will compare. Those of pictures are in images/picture_set.h. Pure; needs nothing of
// torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/data/base/sample_source.h"

namespace muster::worker {

// `content`: the hash of all bytes, in the order in which they are read.
std::string TextFingerprint(int64_t context, absl::string_view content);
std::string TokensFingerprint(int64_t context, int64_t vocabulary, absl::string_view content);
std::string CsvFingerprint(absl::string_view target, const std::vector<std::string>& features,
                           bool regress, bool normalize, absl::string_view content);
// `shards`: TokenWindows::Fingerprint of each split.
std::string TokenShardsFingerprint(int64_t context, int64_t vocabulary,
                                   const std::vector<std::string>& shards);

// Of data of whose split some samples are used only (subset.h).
std::string SubsetFingerprint(const std::string& whole, Split split, uint64_t samples);

// Of several sources as one (mixture.h).
std::string MixtureFingerprint(const std::vector<std::string>& sources);

}  // namespace muster::worker
