#include "worker/data/base/data_fingerprint.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muster::worker {

std::string SubsetFingerprint(const std::string& whole, Split split, uint64_t samples) {
  return absl::StrCat(whole, ":", SplitName(split), "=", samples);
}

std::string MixtureFingerprint(const std::vector<std::string>& sources) {
  return absl::StrCat("mixture+", absl::StrJoin(sources, "+"));
}

}  // namespace muster::worker
