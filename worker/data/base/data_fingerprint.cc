#include "worker/data/base/data_fingerprint.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muster::worker {

std::string TextFingerprint(int64_t context, absl::string_view content) {
  return absl::StrCat("text-v1:", context, ":", content);
}

std::string TokensFingerprint(int64_t context, int64_t vocabulary, absl::string_view content) {
  return absl::StrCat("tokens-v1:", context, ":", vocabulary, ":", content);
}

std::string CsvFingerprint(absl::string_view target, const std::vector<std::string>& features,
                           bool regress, bool normalize, absl::string_view content) {
  return absl::StrCat("csv-v1:", target, ":", regress, ":", normalize, ":",
                      absl::StrJoin(features, ","), ":", content);
}

std::string TokenShardsFingerprint(int64_t context, int64_t vocabulary,
                                   const std::vector<std::string>& shards) {
  return absl::StrCat("token-shards-v1:", context, ":", vocabulary, ":",
                      absl::StrJoin(shards, ":"));
}

std::string SubsetFingerprint(const std::string& whole, Split split, uint64_t samples) {
  return absl::StrCat(whole, ":", SplitName(split), "=", samples);
}

std::string MixtureFingerprint(const std::vector<std::string>& sources) {
  return absl::StrCat("mixture+", absl::StrJoin(sources, "+"));
}

}  // namespace muster::worker
